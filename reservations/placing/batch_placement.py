"""Committing the plans of a batch: each kind of row is locked once for all of them (C19).

One plan after the other would lock the devices of the second after the host resources of the first,
and so meet a node's inventory report, or another batch, in the opposite order. Here every node,
device, booking and resource of all plans is locked in turn, each kind sorted; what a rival took is
seen by what was not booked. So a batch has no savepoint a placement, of which PostgreSQL keeps no
more than 64 in memory (R13): its caller takes what was booked, or rolls all of it back.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bettercompute import failpoints, ids
from bettercompute.failpoints import Failpoint
from nodes import bookings, eligibility, resources
from nodes.bookings import Booking
from nodes.eligibility import Locked
from nodes.resources import NodeAmounts
from pools.planner.packing import Part
from pools.planner.plan import Plan
from reservations import placement
from reservations.placement import Claim, Placed, Window


@dataclass(frozen=True, slots=True)
class Chosen:
    """A claim, and the plan that would serve it in a window."""

    claim: Claim
    plan: Plan
    window: Window


@dataclass(frozen=True, slots=True)
class Lost:
    """A rival, or a change of eligibility, was faster on these nodes."""

    nodes: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Try:
    chosen: Chosen
    parts: Mapping[str, Part]  # by the id of the allocation that it would be

    @property
    def key(self) -> str:
        return self.chosen.claim.reservation_id

    @property
    def amounts(self) -> list[NodeAmounts]:
        return [(part.node_id, key, part.resources) for key, part in self.parts.items()]


def place(batch: Sequence[Chosen]) -> dict[str, Placed | Lost]:
    """Book these plans inside the caller's transaction, the first before the last.

    The caller holds the reservations' rows and the pool's. Each is booked whole or not at all.
    """
    tries = [_Try(each, {ids.new("alloc"): part for part in each.plan.parts}) for each in batch]
    locked = eligibility.lock(
        node_ids=sorted({node for each in batch for node in each.plan.node_ids}),
        device_ids=sorted({device for each in batch for device in each.plan.device_ids}),
    )
    lost = _ineligible(tries, locked)
    lost |= _book_devices([each for each in tries if each.key not in lost])
    lost |= _book_resources([each for each in tries if each.key not in lost])
    failpoints.reach(Failpoint.PLACEMENT_BOOKED)
    made = {
        each.key: placement.outcome(each.chosen.claim, each.parts, each.chosen.window, locked)
        for each in tries
        if each.key not in lost
    }
    placement.write(
        [
            (each.claim, made[each.claim.reservation_id])
            for each in batch
            if each.claim.reservation_id in made
        ]
    )
    return {**made, **lost}


def _ineligible(tries: Sequence[_Try], locked: Locked) -> dict[str, Lost]:
    """C13: whatever changed since the batch was planned is seen under lock."""
    gone = {
        each.key: placement.unfit(
            each.chosen.claim.demand, each.chosen.plan, locked, each.chosen.window
        )
        for each in tries
    }
    return {key: Lost(nodes) for key, nodes in gone.items() if nodes}


def _book_devices(tries: Sequence[_Try]) -> dict[str, Lost]:
    """C9: whoever has fewer rows than devices lost some to a rival, and keeps none."""
    claims = [
        Booking(device, key, each.chosen.window.start, each.chosen.window.end)
        for each in tries
        for key, part in each.parts.items()
        for device in part.device_ids
    ]
    if not claims:
        return {}
    booked = bookings.book_each(claims)
    missing = {
        each.key: frozenset(
            part.node_id for key, part in each.parts.items() if booked[key] < len(part.device_ids)
        )
        for each in tries
    }
    losers = {key: nodes for key, nodes in missing.items() if nodes}
    _take_back(each for each in tries if each.key in losers)
    return {key: Lost(nodes) for key, nodes in losers.items()}


def _book_resources(tries: Sequence[_Try]) -> dict[str, Lost]:
    """C12: all rows locked first; then each in turn, all of it or nothing."""
    resources.lock(node_amounts=[amount for each in tries for amount in each.amounts])
    losers = [
        each
        for each in tries
        if not resources.book(
            node_amounts=each.amounts, start=each.chosen.window.start, end=each.chosen.window.end
        )
    ]
    _take_back(losers)
    return {each.key: Lost(frozenset(each.chosen.plan.node_ids)) for each in losers}


def _take_back(losers: Iterable[_Try]) -> None:
    allocations = [key for each in losers for key in each.parts]
    if allocations:
        bookings.unbook(allocations)
