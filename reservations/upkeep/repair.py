"""The check before a start: what can no longer serve is replaced while there is time (R18).

From 15 minutes before its start on, a placed reservation whose node or device is not eligible any
more gets others for the same window. A gang keeps the nodes that still serve, where its topology
lets it; else all of it moves. The new devices are booked before the old ones are given back, so
nothing is lost where nothing better is to be had; then it is ``Degraded``, and tried again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.db import transaction

from bettercompute import clock
from bettercompute.coordination.fencing import Fence
from bettercompute.states import AllocationState, ReservationState
from bettercompute.wire.reservations import GangTopology
from nodes import assignments, eligibility
from pools import catalogue, chance, snapshot
from pools.planner.plan import NoFit, Plan
from pools.planner.request import Gang
from reservations import ending, lifecycle, moments, placement, queries
from reservations.lifecycle import Effects
from reservations.models import Allocation, Reservation
from reservations.placement import Claim, Placed
from reservations.placing import pending


@dataclass(frozen=True, slots=True)
class _Repair:
    """Which allocations to replace, by what, and the claim that says so."""

    claim: Claim
    replaced: tuple[Allocation, ...]
    found: Plan


def is_due(reservation: Reservation, now: datetime) -> bool:
    """Whether it is placed and so near its start that it is checked."""
    start = reservation.starts_at
    if reservation.state != ReservationState.PLACED or start is None:
        return False
    return start - moments.CHECK_BEFORE_START <= now < start


def try_repair(reservation_id: str, fence: Fence, effects: Effects) -> bool:
    """Replace what cannot serve; False where nothing has to be, or nothing better is to be had."""
    reservation = Reservation.objects.filter(id=reservation_id).first()
    if reservation is None or not is_due(reservation, clock.now()):
        return False
    planned = _plan(reservation)
    if planned is None:
        return False
    with fence():
        locked = queries.locked(reservation_id)
        if locked is None or locked.version != reservation.version:
            return False  # it changed meanwhile, and whoever changed it woke us
        if not is_due(locked, locked.read_at):
            return False  # its start came meanwhile, and its window is not to move with it
        made = placement.place(
            planned.claim, planned.found, now=locked.read_at, giving_back=planned.replaced
        )
        if not isinstance(made, Placed):
            return False
        _move(locked, planned, made, effects)
        effects.flush()
    return True


def _plan(reservation: Reservation) -> _Repair | None:
    """What to replace by what, looked at outside the transaction that does it."""
    claim = replace(
        pending.claim_of(
            reservation, catalogue.of_tenant(reservation.tenant_id, reservation.pool_id)
        ),
        requested_start=reservation.starts_at,
    )
    allocations = ending.live_allocations(reservation)
    with transaction.atomic():
        locked = eligibility.lock(
            node_ids=[each.node_id for each in allocations],
            device_ids=[device for each in allocations for device in each.device_ids],
        )
    window = claim.window(clock.now())
    unfit = [
        each for each in allocations if not placement.serves(claim.demand, each, locked, window)
    ]
    if not unfit:
        return None
    return next(filter(None, _ways(claim, allocations, unfit)), None)


def _ways(
    claim: Claim, allocations: Sequence[Allocation], unfit: Sequence[Allocation]
) -> list[_Repair | None]:
    """The ways to mend it, the one that moves least first."""
    here = frozenset(each.node_id for each in allocations)
    sick = frozenset(each.node_id for each in unfit)
    gang = claim.demand.gang
    if gang is None:
        return [_look(claim, allocations, sick), _look(claim, allocations, frozenset())]
    part = replace(claim, demand=replace(claim.demand, gang=Gang(len(unfit), gang.topology)))
    some = _look(part, unfit, here) if gang.topology is GangTopology.ANY else None
    return [some, None if some else _look(claim, allocations, here)]


def _look(claim: Claim, replaced: Sequence[Allocation], exclude: frozenset[str]) -> _Repair | None:
    window = claim.window(clock.now())
    found = snapshot.find(
        claim.pool_id,
        claim.demand,
        start=window.start,
        end=window.end,
        rng=chance.RNG,
        exclude_nodes=exclude,
    )
    return None if isinstance(found, NoFit) else _Repair(claim, tuple(replaced), found)


def _move(reservation: Reservation, planned: _Repair, made: Placed, effects: Effects) -> None:
    """The new devices are booked; give the old ones back, and tell."""
    ending.free(
        planned.replaced, after=AllocationState.RELEASED, at=reservation.read_at, why="repaired"
    )
    replaced = [each.id for each in planned.replaced]
    assignments.forget(replaced, waking=[(lifecycle.POOL_KIND, reservation.pool_id, None)])
    kept = ending.live_allocations(reservation)
    lifecycle.amend(reservation, {"gpu_milli": _gpu_milli(reservation, planned, made, len(kept))})
    nodes = ", ".join(sorted({each.node_id for each in planned.replaced}))
    effects.event(reservation, "repaired", reason=f"replaced what could not serve: {nodes}")


def _gpu_milli(reservation: Reservation, planned: _Repair, made: Placed, allocations: int) -> int:
    """What it has now: all of it new, or so many of a gang's equal parts."""
    if len(made.allocations) == allocations:
        return made.gpu_milli
    return made.gpu_milli // len(planned.replaced) * allocations
