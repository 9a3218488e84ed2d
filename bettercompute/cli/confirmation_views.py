"""What agents ask, as their person reads it at a terminal. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bettercompute import units
from bettercompute.cli import views
from bettercompute.cli.output import Cell, Shown, Table, facts
from bettercompute.cli.views import Reader
from bettercompute.pages import questions, spans
from bettercompute.pages.questions import Told
from bettercompute.states import ConfirmationState as S
from bettercompute.wire.capacity import QuotaAfter
from bettercompute.wire.confirmations import Confirmation
from bettercompute.wire.reservations import Reservation

_COLOURS = {S.OPEN: "yellow", S.APPROVED: "cyan", S.USED: "green", S.DENIED: "red"}


@dataclass(frozen=True, slots=True)
class About:
    """What is known of what they are about."""

    reservations: Mapping[str, Reservation] = field(default_factory=dict)
    #: what the tenant would hold once a create is done
    quotas: Sequence[QuotaAfter] = ()


def one(found: Confirmation, about: About, reader: Reader) -> Shown:
    """One with all that is known of it."""
    lines: list[str | Table] = [f"{found.id}  {_state(found)}"]
    lines += facts(
        [
            ("Wants to", wish(found, about, reader)),
            ("Agent", f"{found.agent}, for {found.username}"),
            ("About", found.resource_id),
            *_of_reservation(found, about.reservations.get(found.resource_id), reader),
            ("Quota then", ", ".join(_quota(each, reader) for each in about.quotas)),
            ("If approved", _means(found)),
            ("Asked", reader.moment(found.asked_at)),
            ("Until", reader.moment(found.expires_at)),
            ("Decided", reader.moment(found.decided_at)),
            ("Because", found.reason or ""),
        ]
    )
    return Shown(document=found, ids=[found.id], human=lines)


def several(found: Sequence[Confirmation], about: About, reader: Reader, *, more: bool) -> Shown:
    """A list of them, newest first."""
    rows = [
        (
            each.id,
            Cell(_state(each), _COLOURS.get(each.state)),
            each.agent,
            wish(each, about, reader),
            reader.moment(each.expires_at),
        )
        for each in found
    ]
    table = Table(("ID", "STATE", "AGENT", "WANTS TO", "UNTIL"), rows, "Nothing awaits you.")
    return Shown(
        document={"items": found, "more": more}, ids=[each.id for each in found], human=[table]
    )


def wish(found: Confirmation, about: About, reader: Reader) -> str:
    """What the agent wants, with instants and names as who reads knows them."""
    known = about.reservations.get(found.resource_id)
    pool_id = found.asked.get("request", {}).get("poolId") if known is None else known.pool_id
    pool = reader.pools.get(pool_id or "", "")
    told = Told(reader.moment, _thing(known, reader), pool, reader.people)
    try:
        return questions.summary(found.asked, told)
    except KeyError:  # a newer server knows other acts, and its own words for them
        return found.summary


def _thing(known: Reservation | None, reader: Reader) -> str:
    if known is None:
        return questions.IT
    devices = views.devices(known.request, reader.devices.get(known.pool_id, ()))
    return f"{devices} in {reader.pool(known.pool_id)}"


def _of_reservation(
    found: Confirmation, known: Reservation | None, reader: Reader
) -> list[tuple[str, str]]:
    if known is None:
        return []
    until, longer = found.asked.get("until"), ""
    if until is not None and known.during is not None:
        more_ms = max(0, until - known.during.end)
        hours = known.quote.gpu_hours * more_ms / (known.during.end - known.during.start)
        longer = f"{spans.text(more_ms)}, {hours:g} GPU-hours more"
    return [
        ("Pool", reader.pool(known.pool_id)),
        ("When", views.when_in_full(known, reader)),
        ("Cost", views.cost(known)),
        ("Longer by", longer),
    ]


def _means(found: Confirmation) -> str:
    return questions.MEANS.get(found.asked["verb"], "") if found.state is S.OPEN else ""


def _quota(quota: QuotaAfter, reader: Reader) -> str:
    of = {"tenant": "", "pool": " in this pool", "offer": " of its offer"}[quota.scope]
    used = units.number(quota.resource, quota.used)
    return f"{used} of {units.text(quota.resource, quota.max)}{of}"


def _state(found: Confirmation) -> str:
    """As people read it: what was denied after an approval was withdrawn."""
    return "withdrawn" if found.withdrawn else str(found.state)
