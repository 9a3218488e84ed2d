"""Keeping the occurrences of a series booked, as far ahead as its pool's horizon goes.

Level-triggered: it reads what its occurrences' rows say and does what is missing, some at a time,
each in transactions of its own; a run that dies anywhere is made up for by the next.
"""

from dataclasses import replace
from datetime import timedelta

from bettercompute import clock, failpoints
from bettercompute.coordination.fencing import Fence
from bettercompute.coordination.runner import At, Done, Outcome
from bettercompute.failpoints import Failpoint
from bettercompute.iam import callers, delegation, memberships
from bettercompute.iam.callers import Caller
from bettercompute.states import SeriesState
from pools import catalogue, occurrences
from reservations import conditions
from reservations.conditions import ConditionType
from reservations.models import Series
from reservations.series import booking, cancelling, rollout, rows
from reservations.upkeep import ownership

OWNER_RECHECK = timedelta(hours=1)


def reconcile(key: str, fence: Fence) -> Outcome:
    """Look at one series and do what is due; answers when to look again."""
    for (reservation_id,) in rows.OCCURRENCES.all("unbooked_begun", series_id=key):
        booking.miss(reservation_id, fence)
    cancelling.withdraw_behind_cut(key, fence)
    rollout.roll(key, fence)
    owner = _owner(key, fence)
    if owner is not None:
        _book_some(owner, key, fence)
    return _next(key, fence, resolved=owner is not None)


def _owner(series_id: str, fence: Fence) -> Caller | None:
    """Whoever the series acts for; None, and said so, while nobody answers for it (case 23)."""
    series = Series.objects.select_related("owner").filter(pk=series_id).first()
    if series is None or series.state != SeriesState.ACTIVE:
        return None
    absence = memberships.absence(series.owner_id, series.tenant_id)
    known = conditions.find(series.conditions, ConditionType.OWNER_UNRESOLVED)
    if (absence is None) != (known is None):
        with fence():
            locked = rows.locked(series_id)
            if locked is not None and locked.state == SeriesState.ACTIVE:
                noted = ownership.noted(locked.conditions, absence, now=locked.read_at)
                rows.amend(locked, {"conditions": noted})
    return None if absence else _acting(series)


def _acting(series: Series) -> Caller:
    """Its owner; or, where an agent asked for it alone, that agent for them, as for its first."""
    owner = callers.for_tenant(series.owner, series.tenant_id)
    confirmed = bool(series.confirmation_id)
    return replace(owner, delegation=delegation.remaining(series.agent, confirmed=confirmed))


def _book_some(owner: Caller, series_id: str, fence: Fence) -> None:
    due = rows.OCCURRENCES.all("unbooked_due", series_id=series_id, limit=rollout.STEP_MAX)
    for (reservation_id,) in due:
        booking.book(owner, reservation_id, fence)
        failpoints.reach(Failpoint.OCCURRENCE_TRIED)


def _next(key: str, fence: Fence, *, resolved: bool) -> Outcome:
    """When to look again: an occurrence comes near, is to be tried again, or would begin."""
    with fence():
        series = rows.locked(key)
        if series is None or series.state != SeriesState.ACTIVE:
            return Done()
        seen, now = rows.look(key), series.read_at
        if series.next_at is None and (seen.last_at is None or seen.last_at <= now):
            rows.finish(series, SeriesState.ENDED)
            return Done()
    wanted = [seen.unbooked_at, seen.retry_at if resolved else now + OWNER_RECHECK]
    if series.next_at is None:
        wanted.append(seen.last_at)
    elif seen.ahead >= occurrences.AHEAD_MAX:
        wanted.append(seen.first_ahead)
    else:
        access = catalogue.of_tenant(series.tenant_id, series.pool_id)
        wanted.append(series.next_at - occurrences.horizon(access.policy))
    return At(max(clock.now(), min(at for at in wanted if at is not None)))
