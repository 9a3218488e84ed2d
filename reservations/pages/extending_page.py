"""The page that asks for a later end, and says how far it could go. Pure."""

from dataclasses import dataclass
from datetime import datetime, tzinfo

from django.urls import reverse

from bettercompute import clock, durations
from bettercompute.pages import moments, parts, spans, starts
from bettercompute.wire.reservations import Reservation
from reservations.pages import presentation
from reservations.pages.presentation import Names

QUICK = (("1h", "1 hour"), ("4h", "4 hours"), ("1d", "1 day"))
EXAMPLES = "Say how much longer (4h, 2 days) or until when (18:00, Fri 09:00)."


@dataclass(frozen=True, slots=True)
class Quick:
    """A button that adds a usual length."""

    value: str
    label: str
    until: str
    fits: bool


@dataclass(frozen=True, slots=True)
class Page:
    """What may be asked, what was typed, and what came of it."""

    what: str
    ends: moments.Moment
    bound: str
    until_ms: int | None
    quick: tuple[Quick, ...]
    key: str
    more: str
    error: str
    notice: parts.Notice | None
    back_href: str
    action_href: str


@dataclass(frozen=True, slots=True)
class Asked:
    """What a person typed, as the use case takes it; ``error`` where it is neither."""

    by_ms: int | None = None
    until_ms: int | None = None
    error: str = ""


def read(more: str, *, now: datetime, zone: tzinfo) -> Asked:
    """A length or a moment, in the words that the form for a reservation takes too."""
    if more.isdigit() and len(more) > 9:
        return Asked(until_ms=int(more[:15]))  # the button that goes up to the next booking
    try:
        return Asked(by_ms=spans.parse(more))
    except spans.NotUnderstood:
        pass
    try:
        found = starts.parse(more, now=now, zone=zone)
    except starts.NotUnderstood:
        return Asked(error=EXAMPLES)
    return Asked(error=EXAMPLES) if found.at is None else Asked(until_ms=clock.to_ms(found.at))


def not_extended(bounded: bool) -> parts.Notice:
    """Why the end did not move."""
    if bounded:
        text = "Others come before that. Below is how far it can go; nothing was changed."
        return parts.Notice("Not that long", text, "amber")
    return parts.Notice("Nothing to extend", "It goes on that long already.", "blue")


def page(
    shown: Reservation,
    names: Names,
    *,
    available_until: datetime | None,
    now: datetime,
    zone: tzinfo,
    key: str,
    more: str = "",
    error: str = "",
    notice: parts.Notice | None = None,
) -> Page:
    """The page for a reservation that has an end."""
    assert shown.during is not None
    end = clock.from_ms(shown.during.end)
    return Page(
        what=presentation.what(shown, names),
        ends=moments.moment(end, now=now, zone=zone),
        bound=_bound(available_until, end, now=now, zone=zone),
        until_ms=_useful(available_until, end),
        quick=tuple(
            _quick(value, label, end, available_until, now=now, zone=zone) for value, label in QUICK
        ),
        key=key,
        more=more,
        error=error,
        notice=notice,
        back_href=reverse("reservation", args=[shown.id]),
        action_href=reverse("reservation-extend", args=[shown.id]),
    )


def _useful(until: datetime | None, end: datetime) -> int | None:
    return None if until is None or until <= end else clock.to_ms(until)


def _bound(until: datetime | None, end: datetime, *, now: datetime, zone: tzinfo) -> str:
    if until is None:
        return "Nothing that is booked on its devices comes after it."
    if until <= end:
        return "Others have its devices right behind it: it cannot be extended now."
    longer = spans.text(clock.to_ms(until) - clock.to_ms(end))
    return f"It can go until {moments.text(until, now=now, zone=zone)} ({longer} more)."


def _quick(
    value: str,
    label: str,
    end: datetime,
    until: datetime | None,
    *,
    now: datetime,
    zone: tzinfo,
) -> Quick:
    after = clock.from_ms(clock.to_ms(end) + durations.parse(value))
    return Quick(
        value=value,
        label=label,
        until=moments.text(after, now=now, zone=zone),
        fits=until is None or after <= until,
    )
