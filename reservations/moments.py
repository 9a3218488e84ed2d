"""When to look at a reservation again (R24). Pure: instants in, an instant out."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from bettercompute.states import ReservationState

CHECK_BEFORE_START = timedelta(minutes=15)
ENDING_NOTICE = timedelta(minutes=15)
BIND_TIMEOUT = timedelta(minutes=5)
UNBIND_TIMEOUT = timedelta(minutes=5, seconds=30)  # half a minute behind the quarantine
ACTIVE_RECHECK = timedelta(minutes=15)
PENDING_RETRY = timedelta(seconds=30)
REPAIR_RETRY = timedelta(minutes=1)
RIVAL_RETRY = timedelta(seconds=1)
DRAFT_LIFETIME = timedelta(hours=24)
HELD_OFF_RETRY = timedelta(seconds=5)  # a deadline that an outage of ours keeps from being judged


@dataclass(frozen=True, slots=True)
class Schedule:
    """The instants of one reservation that matter."""

    state: ReservationState
    created_at: datetime
    starts_at: datetime | None
    ends_at: datetime | None
    lease_until: datetime | None
    bind_deadline: datetime | None
    confirm_until: datetime | None
    pending_until: datetime | None
    lost_to_rivals: bool = False
    in_a_queue: bool = False  #: the pool's placer tries it again, with the rest of its line
    degraded: bool = False
    no_show_at: datetime | None = None


def next_look(schedule: Schedule, now: datetime) -> datetime | None:
    """The first instant from now on at which something may be due, or None for a terminal state.

    An instant already past is answered as ``now``: whatever is overdue is looked at once, at once.
    """
    candidates = [max(moment, now) for moment in _moments(schedule, now) if moment is not None]
    return min(candidates, default=None)


def _moments(schedule: Schedule, now: datetime) -> Iterable[datetime | None]:
    match schedule.state:
        case ReservationState.DRAFT:
            yield schedule.created_at + DRAFT_LIFETIME
        case ReservationState.AWAITING_CONFIRMATION:
            yield schedule.confirm_until
        case ReservationState.PENDING:
            yield schedule.pending_until
            if not schedule.in_a_queue:
                yield now + (RIVAL_RETRY if schedule.lost_to_rivals else PENDING_RETRY)
        case ReservationState.PLACED:
            yield schedule.starts_at
            yield from _ahead(now, schedule.starts_at, CHECK_BEFORE_START)
            if schedule.degraded and _is_checked(schedule.starts_at, now):
                yield now + REPAIR_RETRY  # its repair found nothing better (R18)
            yield from (schedule.ends_at, _unless_held_off(schedule.lease_until, now))
        case ReservationState.BINDING:
            if schedule.bind_deadline is None and schedule.starts_at is not None:
                # An earlier holder should be gone by then.
                yield _unless_held_off(schedule.starts_at + UNBIND_TIMEOUT, now)
            yield _unless_held_off(schedule.bind_deadline, now)
            yield from (schedule.ends_at, _unless_held_off(schedule.lease_until, now))
        case ReservationState.ACTIVE:
            yield from (schedule.ends_at, now + ACTIVE_RECHECK)
            yield _unless_held_off(schedule.lease_until, now)
            yield _unless_held_off(schedule.no_show_at, now)
            yield from _ahead(now, schedule.ends_at, ENDING_NOTICE)
        case _:
            return


def _is_checked(starts_at: datetime | None, now: datetime) -> bool:
    """Whether its start is so near that what cannot serve is replaced."""
    return starts_at is not None and starts_at - CHECK_BEFORE_START <= now


def _unless_held_off(deadline: datetime | None, now: datetime) -> datetime | None:
    """A deadline that passed and was not acted on in this run is judged again soon (C38)."""
    if deadline is None or deadline > now:
        return deadline
    return now + HELD_OFF_RETRY


def _ahead(now: datetime, moment: datetime | None, before: timedelta) -> Iterable[datetime]:
    """A notice before ``moment``, unless that has passed already."""
    if moment is not None and moment - before > now:
        yield moment - before
