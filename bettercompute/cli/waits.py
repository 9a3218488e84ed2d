"""A reservation's wait as people read it at a terminal. Pure."""

from collections.abc import Callable
from datetime import datetime, tzinfo

from bettercompute.cli import times
from bettercompute.states import ReservationState
from bettercompute.wire.reasons import Reason, never
from bettercompute.wire.reservations import Reservation
from bettercompute.wire.waiting import Waiting


def facts(waiting: Waiting | None, *, now: datetime, zone: tzinfo) -> list[tuple[str, str]]:
    """Its place in line, what is missing and until when, and when it could start."""
    if waiting is None:
        return []

    def moment(milliseconds: int) -> str:
        return times.moment(milliseconds, now=now, zone=zone)

    told = [("In line", place(waiting))]
    told += [("Waits for", _reason(reason, moment)) for reason in waiting.reasons]
    if waiting.earliest_start is not None:
        behind = "" if waiting.position == 1 else ", if nobody before it takes that"
        told.append(("Earliest start", f"{moment(waiting.earliest_start)}{behind}"))
    elif waiting.earliest_tested_at is not None:
        told.append(("Earliest start", "none found beside what is booked now"))
    if waiting.tested_at is not None:
        told.append(("Last tried", moment(waiting.tested_at)))
    return told


def is_hopeless(found: Reservation) -> bool:
    """Whether its pool, as it is, could not serve it even with nothing booked."""
    return found.waiting is not None and never(found.waiting.reasons)


def lack(found: Reservation) -> str:
    """``it needs 9 GPUs; the most is 8 GPUs on a node``, of what is hopeless."""
    reasons = [] if found.waiting is None else found.waiting.reasons
    lacking = next(reason for reason in reasons if reason.most is not None)
    return f"it needs {lacking.needs}; the most is {lacking.most}"


def standing(found: Reservation, *, now: datetime, zone: tzinfo) -> str:
    """Where a reservation stands that somebody waits for, in a few words."""
    if is_hopeless(found):
        return "can never be served as the pool is"
    if found.waiting is not None:
        return progress(found.waiting, now=now, zone=zone)
    match found.state:
        case ReservationState.PLACED:
            return "has its devices, and is about to get them"
        case ReservationState.BINDING:
            nodes = len(found.allocations)
            return f"getting its devices on {nodes} {'node' if nodes == 1 else 'nodes'}"
        case ReservationState.AWAITING_CONFIRMATION:
            return "waits for a person to confirm it"
    return "is being placed"


def progress(waiting: Waiting, *, now: datetime, zone: tzinfo) -> str:
    """One line for whoever waits: ``2 of 3 in line; at the earliest today 14:00``."""
    told = f"{place(waiting)} in line"
    if waiting.earliest_start is None:
        return told
    start = times.moment(waiting.earliest_start, now=now, zone=zone)
    return f"{told}; at the earliest {start}"


def place(waiting: Waiting) -> str:
    """``2 of 3, behind 8 GPUs``"""
    told = f"{waiting.position} of {waiting.line_length}"
    ahead = f"{waiting.gpus_ahead:g} {'GPU' if waiting.gpus_ahead == 1 else 'GPUs'}"
    return told if waiting.position == 1 else f"{told}, behind {ahead}"


def _reason(reason: Reason, moment: Callable[[int], str]) -> str:
    nodes = f" on {reason.nodes} {'node' if reason.nodes == 1 else 'nodes'}" if reason.nodes else ""
    until = "" if reason.until is None else f", until {moment(reason.until)}"
    most = "" if reason.most is None else f"; the most is {reason.most}"
    return f"{reason.needs} ({reason.filter}{nodes}{until}){most}"
