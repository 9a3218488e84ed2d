"""States in words and colour: the words carry the meaning, the colour helps the eye."""

from collections.abc import Collection
from dataclasses import dataclass

from bettercompute.states import ReservationState as S
from bettercompute.states import SeriesState
from bettercompute.wire import endings
from bettercompute.wire.reasons import NEVER_FITS
from bettercompute.wire.reservations import Reservation


@dataclass(frozen=True, slots=True)
class Chip:
    """A state as people see it; ``tone`` names one of the colours of static/css/components.css."""

    label: str
    tone: str
    meaning: str


RESERVATION: dict[S, Chip] = {
    S.DRAFT: Chip("Draft", "grey", "Not decided yet."),
    S.AWAITING_CONFIRMATION: Chip(
        "Awaiting confirmation", "amber", "A person has to approve what an agent asked for."
    ),
    S.PENDING: Chip("Pending", "amber", "Accepted; waiting for devices to become free."),
    S.PLACED: Chip("Placed", "blue", "Devices are booked for you. They are yours at the start."),
    S.BINDING: Chip("Binding", "violet", "The nodes are handing you the devices."),
    S.ACTIVE: Chip("Active", "green", "The devices are yours to use now."),
    S.DENIED: Chip("Denied", "red", "A policy, or a limit of the pool, refuses it."),
    S.RELEASED: Chip("Released", "grey", "It is over and the devices were given back."),
    S.FAILED: Chip("Failed", "red", "The devices could not be handed over."),
    S.CANCELLED: Chip("Cancelled", "grey", "Called off before it began."),
    S.EXPIRED: Chip("Expired", "grey", "It waited longer than the pool allows."),
}

#: Of what waits for nothing: the pool, as it is, could not serve it even with nothing booked.
HOPELESS = Chip("Pending", "red", "Accepted, but this pool, as it is, can never serve it.")

#: What an agent asked for, and its person refused: before an approval, and after one.
DENIED_BY_OWNER = Chip("Denied", "red", "Its owner denied what an agent asked for.")
WITHDRAWN = Chip("Withdrawn", "red", "Its owner withdrew the approval before it was used.")

SERIES: dict[SeriesState, Chip] = {
    SeriesState.ACTIVE: Chip("Active", "green", "Its occurrences are booked as they come near."),
    SeriesState.ENDED: Chip("Ended", "grey", "Its last occurrence has begun."),
    SeriesState.CANCELLED: Chip("Cancelled", "grey", "No more of its occurrences are booked."),
}
UNBOOKED = Chip("Unbooked", "amber", "Left out so far; tried again until it would begin.")

LIVE = (S.AWAITING_CONFIRMATION, S.PENDING, S.PLACED, S.BINDING, S.ACTIVE)
OVER = (S.DENIED, S.RELEASED, S.FAILED, S.CANCELLED, S.EXPIRED)


def of(shown: Reservation) -> Chip:
    """A reservation's chip, by its state and what is true of it."""
    return reservation(shown.state, reasons(shown))


def reservation(state: str, reasons: Collection[str | None] = ()) -> Chip:
    """The chip of a reservation's state; ``reasons`` are those of its conditions and its end."""
    if state == S.PENDING and NEVER_FITS in reasons:
        return HOPELESS
    if state == S.DENIED and endings.DENIED_BY_OWNER in reasons:
        return DENIED_BY_OWNER
    if state == S.DENIED and endings.WITHDRAWN in reasons:
        return WITHDRAWN
    return RESERVATION[S(state)]


def reasons(shown: Reservation) -> list[str | None]:
    """The codes that say why it is as it is."""
    return [shown.reason, *(each.reason for each in shown.conditions if each.status == "True")]


def is_hopeless(shown: Reservation) -> bool:
    """Whether it waits and can never be served."""
    return of(shown) is HOPELESS
