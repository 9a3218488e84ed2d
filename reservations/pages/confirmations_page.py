"""Confirmations as the console shows them: what an agent wants, in plain words. Pure."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo

from django.urls import reverse

from bettercompute import clock
from bettercompute.pages import moments, parts, questions, spans
from bettercompute.pages.chips import Chip
from bettercompute.pages.questions import Told
from bettercompute.states import ConfirmationState as S
from bettercompute.wire.reservations import Reservation as Shown
from pools import presentation as pools
from pools.quota import Usage
from reservations.confirming import rows
from reservations.models import Confirmation
from reservations.pages import presentation
from reservations.pages.presentation import Names

CHIPS: Mapping[S, Chip] = {
    S.OPEN: Chip("Awaits an answer", "amber", "The person decides; until then nothing is done."),
    S.APPROVED: Chip("Approved", "blue", "It is done when the agent sends its request again."),
    S.USED: Chip("Done", "green", "The agent did it, once."),
    S.DENIED: Chip("Denied", "red", "The agent was told so."),
    S.EXPIRED: Chip("Expired", "grey", "Nobody answered, or the agent did not return, in time."),
}
WITHDRAWN = Chip("Withdrawn", "red", "It was approved and taken back; the agent was told so.")


@dataclass(frozen=True, slots=True)
class Effect:
    """What a create would take of the tenant's quotas."""

    usages: Sequence[Usage]
    charges: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Card:
    """One question, and the buttons that answer it where who looks may."""

    id: str
    title: str
    agent: str
    person: str
    chip: Chip
    asked: moments.Moment
    until: parts.Countdown
    facts: tuple[parts.Fact, ...]
    quota: tuple[parts.QuotaLine, ...]
    note: str
    href: str
    approve_href: str
    deny_href: str
    withdraw_href: str
    poll: str

    @property
    def digest(self) -> str:
        """Changes with what the card says, but for the time that is left."""
        return _digest(_still(self))


@dataclass(frozen=True, slots=True)
class Row:
    """One that was answered, or is over."""

    href: str
    title: str
    agent: str
    chip: Chip
    asked: moments.Moment
    reason: str


@dataclass(frozen=True, slots=True)
class Page:
    """What awaits who looks and what they approved; what awaits others; and what was before."""

    mine: tuple[Card, ...]
    approved: tuple[Card, ...]
    others: tuple[Card, ...]
    earlier: tuple[Row, ...]
    poll: str = presentation.POLL_WHILE_HELD

    @property
    def digest(self) -> str:
        """Changes with what the page says, but for the time that is left."""
        cards = (self.mine, self.approved, self.others)
        return _digest(*([_still(card) for card in each] for each in cards), self.earlier)


@dataclass(frozen=True, slots=True)
class About:
    """What is known of the reservation that it is about, where it is about one."""

    shown: Shown | None
    names: Names
    effect: Effect | None = None


def card(
    confirmation: Confirmation, about: About, *, decides: bool, now: datetime, zone: tzinfo
) -> Card:
    """All of one confirmation; ``decides`` says whether who looks is the person."""
    is_live = confirmation.expires_at > now
    is_open = is_live and confirmation.state == S.OPEN
    buttons = is_open and decides
    withdraws = is_live and decides and confirmation.state == S.APPROVED
    abandoned = rows.is_abandoned(confirmation, now)
    effect = about.effect
    return Card(
        id=confirmation.id,
        title=_title(confirmation, about, now=now, zone=zone),
        agent=confirmation.agent,
        person=confirmation.account.username,
        chip=_chip(confirmation, now),
        asked=moments.moment(confirmation.asked_at, now=now, zone=zone),
        until=_until(confirmation, is_open or withdraws, now),
        facts=tuple(_facts(confirmation, about, is_open=is_open, now=now, zone=zone)),
        quota=() if effect is None else pools.quota_lines(effect.usages, added=_added(effect)),
        note=_note(
            confirmation,
            is_open=is_open,
            decides=decides,
            withdraws=withdraws,
            abandoned=abandoned,
        ),
        href=reverse("confirmation", args=[confirmation.id]),
        approve_href=_href("approve", confirmation) if buttons and not abandoned else "",
        deny_href=_href("deny", confirmation) if buttons else "",
        withdraw_href=_href("withdraw", confirmation) if withdraws else "",
        poll=presentation.POLL_WHILE_HELD if is_live and _moves(confirmation) else "",
    )


def row(confirmation: Confirmation, about: About, *, now: datetime, zone: tzinfo) -> Row:
    """One line of what was before."""
    return Row(
        href=reverse("confirmation", args=[confirmation.id]),
        title=_title(confirmation, about, now=now, zone=zone),
        agent=confirmation.agent,
        chip=_chip(confirmation, now),
        asked=moments.moment(confirmation.asked_at, now=now, zone=zone),
        reason=confirmation.reason,
    )


def _moves(confirmation: Confirmation) -> bool:
    """Whether something may still come of it."""
    return confirmation.state in (S.OPEN, S.APPROVED)


def _still(shown: Card) -> Card:
    return replace(shown, until=parts.Countdown(""))


def _digest(*said: object) -> str:
    return hashlib.sha256(repr(said).encode()).hexdigest()[:16]


def _title(confirmation: Confirmation, about: About, *, now: datetime, zone: tzinfo) -> str:
    """What the agent wants, with instants and names as who looks reads them."""

    def instant(milliseconds: int) -> str:
        return moments.text(clock.from_ms(milliseconds), now=now, zone=zone)

    shown, names = about.shown, about.names
    pool = "" if shown is None else names.pools.get(shown.pool_id, shown.pool_id)
    thing = "the series" if shown is None else f"{presentation.what(shown, names)} in {pool}"
    told = Told(instant=instant, thing=thing, pool=pool, people=names.owners)
    return questions.summary(confirmation.asked, told)


def _href(verb: str, confirmation: Confirmation) -> str:
    return reverse(f"confirmation-{verb}", args=[confirmation.id])


def _chip(confirmation: Confirmation, now: datetime) -> Chip:
    """As it is: one whose time is over is, also before a worker says so."""
    if confirmation.withdrawn:
        return WITHDRAWN
    over = _moves(confirmation) and confirmation.expires_at <= now
    return CHIPS[S.EXPIRED if over else S(confirmation.state)]


def _until(confirmation: Confirmation, is_live: bool, now: datetime) -> parts.Countdown:
    if not is_live:
        return parts.Countdown("")
    return parts.countdown(confirmation.expires_at, now=now, before="Expires in", after="Expired")


def _facts(
    confirmation: Confirmation, about: About, *, is_open: bool, now: datetime, zone: tzinfo
) -> list[parts.Fact]:
    facts: list[parts.Fact] = []
    shown = about.shown
    if shown is None:
        href = reverse("series-detail", args=[confirmation.resource_id])
        facts.append(parts.Fact("Series", confirmation.resource_id, href))
    else:
        facts += _of_reservation(confirmation, shown, about.names, now=now, zone=zone)
    facts.append(parts.Fact("Because", confirmation.reason))
    if is_open:
        until = moments.text(confirmation.expires_at, now=now, zone=zone)
        facts.append(parts.Fact("If approved", questions.MEANS.get(confirmation.asked["verb"], "")))
        facts.append(parts.Fact("Without an answer", f"It lapses {until}, and nothing is done."))
    return [fact for fact in facts if fact.value]


def _of_reservation(
    confirmation: Confirmation, shown: Shown, names: Names, *, now: datetime, zone: tzinfo
) -> list[parts.Fact]:
    line = presentation.row(shown, names, now=now, zone=zone)
    facts = [
        parts.Fact("Reservation", f"{line.what} in {line.pool}", line.href),
        parts.Fact("Window", line.window),
        parts.Fact("Length", line.duration),
        parts.Fact("GPU-hours", _gpu_hours(confirmation, shown)),
    ]
    until = confirmation.asked.get("until")
    if until is not None and shown.during is not None:
        longer_ms = max(0, until - shown.during.end)
        more = shown.quote.gpu_hours * longer_ms / (shown.during.end - shown.during.start)
        facts.append(
            parts.Fact("Longer by", f"{spans.text(longer_ms)}, {parts.number(more)} GPU-hours more")
        )
    return facts


def _gpu_hours(confirmation: Confirmation, shown: Shown) -> str:
    hours = parts.number(shown.quote.gpu_hours)
    request = confirmation.asked.get("request", {})
    return f"{hours} each time" if request.get("recurrence") else hours


def _added(effect: Effect) -> dict[tuple[str, str | None, str | None], int]:
    return {usage.key: effect.charges.get(usage.resource, 0) for usage in effect.usages}


def _note(
    confirmation: Confirmation, *, is_open: bool, decides: bool, withdraws: bool, abandoned: bool
) -> str:
    if (is_open or withdraws) and abandoned:
        return "The agent’s token has ended, so nothing can be done on this any more."
    if is_open and not decides:
        return f"Only {confirmation.account.username} decides on this."
    if is_open:
        return (
            "Approving does nothing by itself: the agent has to send its request again, and then it"
            " is done, once, as it stands here."
        )
    if withdraws:
        return "It is done when the agent sends its request again, unless you withdraw it before."
    return (WITHDRAWN if confirmation.withdrawn else CHIPS[S(confirmation.state)]).meaning
