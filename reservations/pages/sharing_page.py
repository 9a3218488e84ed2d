"""The page that says who may use a reservation, and changes it. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.urls import reverse

from bettercompute.pages import chips, parts
from bettercompute.wire.reservations import Reservation
from reservations.pages import presentation
from reservations.pages.presentation import Names


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who may use it."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class Page:
    """Who may use it, and who else could."""

    what: str
    owner: str
    users: tuple[Person, ...]
    others: tuple[Person, ...]
    over: bool
    back_href: str
    action_href: str
    notice: parts.Notice | None


def page(
    shown: Reservation,
    names: Names,
    members: Iterable[Person],
    *,
    notice: parts.Notice | None = None,
) -> Page:
    """The page of one reservation."""
    users = set(shown.users)
    found = tuple(each for each in members if each.id != shown.owner_identity_id)
    return Page(
        what=presentation.what(shown, names),
        owner=names.owners.get(shown.owner_identity_id, ""),
        users=tuple(each for each in found if each.id in users),
        others=tuple(each for each in found if each.id not in users),
        over=shown.state in chips.OVER,
        back_href=reverse("reservation", args=[shown.id]),
        action_href=reverse("reservation-users", args=[shown.id]),
        notice=notice,
    )
