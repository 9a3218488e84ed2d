"""Series as pages show them: from answers to frozen, printable parts. Pure: reads nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from urllib.parse import urlencode

from django.urls import reverse

from bettercompute import clock
from bettercompute.pages import chips, moments, parts, repeats, zones
from bettercompute.states import ReservationState as S
from bettercompute.states import SeriesState
from bettercompute.wire.series import Occurrence, Series, SeriesWithOccurrences
from reservations.pages import ending_page, presentation
from reservations.pages.presentation import Names


@dataclass(frozen=True, slots=True)
class Row:
    """A series in a list."""

    href: str
    repeats: str
    pool: str
    chip: chips.Chip
    next_start: str
    unbooked: str


@dataclass(frozen=True, slots=True)
class ListPage:
    """The list of series."""

    scopes: tuple[parts.Option, ...]
    rows: tuple[Row, ...]
    next_href: str


@dataclass(frozen=True, slots=True)
class OccurrenceRow:
    """One occurrence; where it has not begun it can be skipped, alone or with what follows."""

    when: str  # by the clock of the series, as it was asked for
    here: str  # by the reader's, where that shows another time
    chip: chips.Chip
    why: str
    href: str
    start_ms: int
    skips: bool
    cut_href: str


@dataclass(frozen=True, slots=True)
class Page:
    """A series' own page."""

    id: str
    repeats: str
    chip: chips.Chip
    clock: str
    facts: tuple[parts.Fact, ...]
    conditions: tuple[str, ...]
    occurrences: tuple[OccurrenceRow, ...]
    cancel_href: str
    skip_href: str
    notice: parts.Notice | None


def listing(
    found: Sequence[Series],
    *,
    scope: str,
    tenant_name: str,
    next_cursor: str | None,
    pools: dict[str, str],
    now: datetime,
    zone: tzinfo,
) -> ListPage:
    """The list, of the visitor or of the tenant."""
    more = urlencode({"scope": scope, "cursor": next_cursor}) if next_cursor else ""
    return ListPage(
        scopes=parts.options([("mine", "Mine"), ("all", f"All of {tenant_name}")], scope),
        rows=tuple(_row(each, pools, now, zone) for each in found),
        next_href=f"?{more}" if more else "",
    )


def _row(each: Series, pools: dict[str, str], now: datetime, zone: tzinfo) -> Row:
    return Row(
        href=reverse("series-detail", args=[each.id]),
        repeats=_repeats(each),
        pool=pools.get(each.pool_id, each.pool_id),
        chip=chips.SERIES[each.state],
        next_start=_moment(each, each.next_start, now, zone),
        unbooked=str(each.unbooked) if each.unbooked else "",
    )


def page(
    shown: SeriesWithOccurrences,
    *,
    names: Names,
    now: datetime,
    zone: tzinfo,
    sees_ask: bool,
    notice: parts.Notice | None = None,
) -> Page:
    """All of a series' page; ``sees_ask``: who looks may read what its owner was asked."""
    pool = names.pools.get(shown.pool_id, shown.pool_id)
    active = shown.state is SeriesState.ACTIVE
    facts = [
        parts.Fact("Pool", pool, reverse("pool", args=[shown.pool_id])),
        parts.Fact("Repeats", _repeats(shown)),
        parts.Fact("By the clock of", shown.time_zone),
        parts.Fact("Next", _moment(shown, shown.next_start, now, zone)),
        parts.Fact("Cut short from", _moment(shown, shown.cut_at, now, zone)),
        parts.Fact("Not booked yet", str(shown.unbooked) if shown.unbooked else ""),
        parts.Fact(
            "Reserved by",
            presentation.asker(shown, names),
            presentation.confirmation_href(shown) if sees_ask else "",
        ),
    ]
    return Page(
        id=shown.id,
        repeats=_repeats(shown),
        chip=chips.SERIES[shown.state],
        clock=shown.time_zone,
        facts=tuple(fact for fact in facts if fact.value),
        conditions=tuple(condition.message for condition in shown.conditions),
        occurrences=tuple(_occurrence(each, shown, now, zone) for each in shown.occurrences),
        cancel_href=reverse("series-cancel", args=[shown.id]) if active else "",
        skip_href=reverse("series-skip", args=[shown.id]),
        notice=notice,
    )


def _occurrence(
    each: Occurrence, shown: SeriesWithOccurrences, now: datetime, zone: tzinfo
) -> OccurrenceRow:
    start, end = clock.from_ms(each.start), clock.from_ms(each.end)
    coming = start > now and each.state in (None, S.PENDING, S.PLACED)
    cut = reverse("series-cancel", args=[shown.id]) + f"?from={each.start}"
    booked = each.reservation_id is not None
    own = _own_zone(shown)
    when, here = (moments.window(start, end, now=now, zone=each) for each in (own, zone))
    return OccurrenceRow(
        when=when,
        here="" if here == when else f"{here} by your clock",
        chip=chips.UNBOOKED if each.state is None else chips.reservation(each.state, {each.reason}),
        why=each.message or "" if each.state in (None, S.EXPIRED) else "",
        href=reverse("reservation", args=[each.reservation_id]) if booked else "",
        start_ms=each.start,
        skips=coming,
        cut_href=cut if coming and shown.state is SeriesState.ACTIVE else "",
    )


def cancelling(
    shown: SeriesWithOccurrences,
    since: datetime | None,
    *,
    now: datetime,
    zone: tzinfo,
    refusal: str = "",
) -> ending_page.Page:
    """The page that asks."""
    since_ms = 0 if since is None else clock.to_ms(since)
    following = [
        each
        for each in shown.occurrences
        if each.start >= since_ms and each.state in (None, S.PENDING, S.PLACED)
    ]
    over = shown.state is not SeriesState.ACTIVE
    what = f"{_repeats(shown)} from {_moment(shown, since_ms, now, zone)} on" if since else ""
    return ending_page.Page(
        title="It is already over" if over else f"Cancel {what or _repeats(shown)}?",
        what=_repeats(shown),
        consequences=(
            f"Given up: {parts.count(len(following), 'occurrence')} not begun yet.",
            "No further ones are booked; earlier ones stay as they are."
            if since
            else "No further ones are booked. One that runs now stays until its end.",
            "Your tenant’s quota gets it back at once.",
            "This cannot be undone: to have it again, reserve again.",
        ),
        verb="" if over else "Cancel them",
        refusal=refusal,
        back_href=reverse("series-detail", args=[shown.id]),
        action_href=reverse("series-cancel", args=[shown.id])
        + (f"?from={since_ms}" if since else ""),
    )


def _repeats(shown: Series) -> str:
    told = repeats.text(shown.rule)
    return f"{told[:1].upper()}{told[1:]}"


def _moment(shown: Series, milliseconds: int | None, now: datetime, zone: tzinfo) -> str:
    """By the clock of the series; by the reader's beside it, where that shows another time."""
    if milliseconds is None:
        return ""
    at, own = clock.from_ms(milliseconds), _own_zone(shown)
    told, here = (moments.text(at, now=now, zone=each) for each in (own, zone))
    return told if told == here else f"{told} {shown.time_zone} ({here} by your clock)"


def _own_zone(shown: Series) -> tzinfo:
    """Its zone; one that this machine does not know is read as UTC, and named as it is."""
    return zones.named(shown.time_zone) or UTC
