"""The page that asks before a reservation is released or cancelled, and says what follows. Pure."""

from dataclasses import dataclass
from datetime import datetime, tzinfo

from django.urls import reverse

from bettercompute import clock
from bettercompute.pages import chips, moments
from bettercompute.states import ReservationState as S
from bettercompute.wire.reservations import Reservation
from reservations.pages import presentation
from reservations.pages.presentation import Names


@dataclass(frozen=True, slots=True)
class Verb:
    """One way to give a reservation up."""

    url: str
    question: str
    button: str


RELEASE = Verb("reservation-release", "Release", "Release now")
CANCEL = Verb("reservation-cancel", "Cancel", "Cancel it")


@dataclass(frozen=True, slots=True)
class Page:
    """The question, and what follows from yes."""

    title: str
    what: str
    consequences: tuple[str, ...]
    verb: str
    refusal: str
    back_href: str
    action_href: str


def page(
    verb: Verb,
    shown: Reservation,
    names: Names,
    *,
    now: datetime,
    zone: tzinfo,
    refusal: str = "",
) -> Page:
    """The page that asks."""
    what = presentation.what(shown, names)
    over = shown.state in chips.OVER
    return Page(
        title=f"{what} is already over" if over else f"{verb.question} {what}?",
        what=what,
        consequences=tuple(consequences(shown, names, now=now, zone=zone)),
        verb="" if over else verb.button,
        refusal=refusal,
        back_href=reverse("reservation", args=[shown.id]),
        action_href=reverse(verb.url, args=[shown.id]),
    )


def consequences(shown: Reservation, names: Names, *, now: datetime, zone: tzinfo) -> list[str]:
    """What happens when it is given up now, in the order people care."""
    if shown.state in chips.OVER:
        return ["Its devices were given back; there is nothing to do."]
    during = shown.during
    nodes = ", ".join(names.nodes.get(a.node_id, a.node_id) for a in shown.allocations)
    lines = []
    if shown.state is S.ACTIVE:
        lines.append(f"The devices on {nodes} are taken from your work at once. Save it first.")
    elif nodes:
        lines.append(f"The devices booked on {nodes} are free for others straight away.")
    else:
        lines.append("It leaves the line; nothing is booked for it any more.")
    if during is not None and shown.state is not S.PENDING:
        start, end = clock.from_ms(during.start), clock.from_ms(during.end)
        if start <= now < end:
            left = moments.relative(end, now=now).removeprefix("in ")
            lines.append(f"{left} of the window are given up and are not charged.")
        else:
            window = moments.window(start, end, now=now, zone=zone)
            lines.append(f"The window {window} is given up and is not charged.")
    lines.append("Your tenant’s quota gets it back at once.")
    lines.append("This cannot be undone: to have devices again, reserve again.")
    return lines
