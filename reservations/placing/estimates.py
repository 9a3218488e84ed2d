"""When a pending reservation could start at the earliest, tested again while it waits (R24, R20).

The same search as a preview's: the first start at which it would fit beside what is booked. Those
before it in the line hold nothing yet, so they are not counted; what is answered is named for what
it is, the earliest start.

A search costs some looks at the pool, so it is bounded: for the first of a line only, at once when
there is none yet, behind a pause when the reasons have changed, and again when it is old.
"""

from datetime import datetime, timedelta

from bettercompute import clock
from bettercompute.coordination import workqueue
from bettercompute.coordination.fencing import Fence
from bettercompute.states import ReservationState
from pools import catalogue, chance, earliest, requests
from reservations import lifecycle, moments, places, queries, trials
from reservations.models import Reservation
from reservations.placing import pending
from reservations.trials import Estimate, Trial

FIRST_IN_LINE_MAX = 20


def refresh(reservation: Reservation, fence: Fence) -> None:
    """Work out again when it could start, where what is known of that is no longer good."""
    trial, now = trials.restore(reservation.waiting), clock.now()
    due = None if trial is None else trials.estimate_due(trial)
    if trial is None or due is None or due > now or not _is_among_the_first(reservation):
        return
    start = _search(reservation, now)
    with fence():
        locked = queries.locked(reservation.id)
        if locked is None or locked.state != ReservationState.PENDING:
            return
        current = trials.restore(locked.waiting)
        if current is None or current.reasons != trial.reasons:
            return  # tried again meanwhile, with another outcome: the next look searches for that
        estimate = Estimate(None if start is None else clock.to_ms(start), clock.to_ms(now))
        lifecycle.observe(locked, Trial(current.tested_ms, current.reasons, estimate).document)


def wake_first(pool_id: str, fence: Fence) -> None:
    """Have it worked out for those of a line that come first and do not look by themselves."""
    line = Reservation.objects.filter(pool_id=pool_id, state=ReservationState.PENDING)
    first = line.order_by("-priority", "created_at", "id")[:FIRST_IN_LINE_MAX]
    soon = clock.now() + moments.PENDING_RETRY
    found = [(row.id, trials.restore(row.waiting)) for row in first]
    due = [
        (lifecycle.KIND, key, at)
        for key, trial in found
        if trial is not None and (at := trials.estimate_due(trial)) is not None and at <= soon
    ]
    if due:
        with fence():
            workqueue.enqueue_many(due)


def _is_among_the_first(reservation: Reservation) -> bool:
    place = places.of([reservation]).get(reservation.id)
    return place is not None and place.position <= FIRST_IN_LINE_MAX


def _search(reservation: Reservation, now: datetime) -> datetime | None:
    access = catalogue.of_tenant(reservation.tenant_id, reservation.pool_id)
    claim = pending.claim_of(reservation, access)
    ahead = timedelta(milliseconds=access.policy.max_ahead or requests.YEARS_5_MS)
    return earliest.find(
        claim.pool_id,
        claim.demand,
        after=claim.window(now).start,
        until=now + ahead,
        length=claim.duration,
        rng=chance.RNG,
    )
