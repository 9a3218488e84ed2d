"""Pending reservations: tried again every 30 s, at once when capacity is freed, until they expire.

Planning happens on a snapshot before any lock; the try itself is one fenced transaction. The line
of a pool is taken by priority, then age (R13); whoever does not fit lets the next one try. Where
the pool's placer queues, nobody tries alone: ``batches`` takes the line.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from bettercompute import clock
from bettercompute.coordination import workqueue
from bettercompute.coordination.fencing import Fence
from bettercompute.coordination.runner import Done, Outcome
from bettercompute.states import ReservationState
from pools import catalogue, requests, shares
from pools.catalogue import PoolAccess
from pools.planner.plan import NoFit, Plan
from reservations import admission, lifecycle, outcomes, placement, queries
from reservations.lifecycle import Effects
from reservations.models import Reservation
from reservations.placement import Claim, Unplaced
from reservations.spot import early_start, giving_way, preemption

RUN_MAX = 50


def try_all(pool_id: str, fence: Fence) -> Outcome:
    """Let those that wait for a pool try one after the other, the first in line first."""
    waiting = [
        reservation_id
        for (reservation_id,) in queries.RESERVATIONS.all(
            "pending_in_pool", pool_id=pool_id, limit=RUN_MAX + 1
        )
    ]
    for reservation_id in waiting[:RUN_MAX]:
        try_place(reservation_id, fence, Effects())
    if len(waiting) > RUN_MAX:
        _wake_the_rest(pool_id, fence)
    early_start.try_all(pool_id, fence)
    giving_way.spare(pool_id, fence)  # behind those who wait: what nobody else needs
    return Done()


def try_place(reservation_id: str, fence: Fence, effects: Effects) -> bool:
    """Try one pending reservation; False where it does not wait (any more), or waits in a queue."""
    reservation = Reservation.objects.filter(
        id=reservation_id, state=ReservationState.PENDING
    ).first()
    if reservation is None:
        return False
    access = catalogue.of_tenant(reservation.tenant_id, reservation.pool_id)
    if access.queued or until(reservation, access) <= clock.now():
        return False
    claim = claim_of(reservation, access)
    found = _look(claim)
    with fence():
        locked = queries.locked(reservation_id)
        if locked is None or locked.state != ReservationState.PENDING:
            return False
        if locked.duration_ms != reservation.duration_ms:
            return False  # placed, extended and lost again meanwhile: whoever did that woke us
        outcome = placement.place(claim, found, now=locked.read_at)
        outcomes.record(locked, outcome, effects)
        effects.flush()
    if isinstance(outcome, Unplaced):
        preemption.try_preempt(claim, fence, own_key=effects.own_key)
    return True


def until(reservation: Reservation, access: PoolAccess) -> datetime:
    """When a pending reservation is given up; an occurrence of a series never begins late."""
    if reservation.occurrence_at is not None and reservation.placed_at is None:
        return reservation.occurrence_at
    return reservation.created_at + timedelta(milliseconds=access.policy.max_pending)


def claim_of(reservation: Reservation, access: PoolAccess) -> Claim:
    """What to place for a reservation that exists, for as long as it is by now (R33)."""
    request = requests.restore(reservation.request, tenant_id=reservation.tenant_id)
    share = shares.resolve(reservation.host_share, request)
    claim = admission.claim_of(reservation.id, request, access, share)
    return replace(claim, duration=timedelta(milliseconds=reservation.duration_ms))


def _look(claim: Claim) -> Plan | NoFit:
    """Where it fits: elsewhere than where it failed to bind before, if that is possible."""
    key = claim.reservation_id
    failed = queries.failed_nodes([key]).get(key, frozenset())
    found = placement.look(claim, exclude_nodes=failed)
    return placement.look(claim) if failed and isinstance(found, NoFit) else found


def _wake_the_rest(pool_id: str, fence: Fence) -> None:
    """A longer line goes on as rows of its own, so that one run stays short."""
    rest = queries.RESERVATIONS.all("pending_behind", pool_id=pool_id, skip=RUN_MAX)
    with fence():
        workqueue.enqueue_many([(lifecycle.KIND, key, None) for (key,) in rest])
