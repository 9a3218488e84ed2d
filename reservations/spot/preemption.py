"""Preemption: spot gives way to a request that does not fit otherwise (R19).

Who gives way is chosen from a look outside any transaction, by the planner. Then one transaction
locks all of these reservations, judges them again, ends their bookings and books in their place:

- what has begun keeps its devices for the notice, and the new reservation starts where they end;
- what has not begun goes back in line, and the new reservation starts when it asked to.

So the hand-over is two bookings that touch. From its commit on the exclusion constraint keeps
everybody else out (C9), and everything after it is what happens at any end with a start behind it
(R24, R35). Spot makes nobody give way; nor does an extension, or a repair.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby

from bettercompute import clock, failpoints, sql
from bettercompute.coordination.fencing import Fence
from bettercompute.failpoints import Failpoint
from bettercompute.pages import moments as instants
from bettercompute.states import ReservationState
from nodes import assignments
from pools import catalogue, chance, snapshot
from pools.catalogue import Spot
from pools.planner import preemption as planning
from pools.planner.plan import Plan
from pools.planner.preemption import Held, HeldAmount, HeldAtom, HostResource
from reservations import conditions, ending, outcomes, placement, queries
from reservations.conditions import Conditions, ConditionType
from reservations.lifecycle import Effects
from reservations.models import Reservation
from reservations.placement import Claim, Room, Window
from reservations.spot import giving_way

PREEMPTION = sql.load(__package__, "preemption")

ATTEMPTS_MAX = 3
CANDIDATES_MAX = 500  # the cheapest; what is behind these stays


@dataclass(frozen=True, slots=True)
class Chosen:
    """Who would give way to a claim, as they were when looked at, and where it would go."""

    claim: Claim  #: with the start that this allows it
    plan: Plan
    victims: Mapping[str, int]  #: version by reservation

    @property
    def start(self) -> datetime:
        """When it would start."""
        assert self.claim.requested_start is not None, "a choice says when"
        return self.claim.requested_start


def look(claim: Claim) -> Chosen | None:
    """Who would give way to it now; None where nobody does, or nobody has to. Takes no locks."""
    terms = claim.preempts
    if terms is None or PREEMPTION.one("any_spot", pool_id=claim.pool_id) is None:
        return None
    now = clock.now()
    at_once = claim.window(now).start
    noticed = _start(claim, terms, now)
    found = None
    if at_once < noticed:
        # Whoever has not begun needs no notice, and loses no work.
        found = _choose(claim, terms, now, start=at_once, with_notice=False)
    return found or _choose(claim, terms, now, start=noticed, with_notice=True)


def try_preempt(claim: Claim, fence: Fence, *, own_key: str | None = None) -> bool:
    """Place a pending reservation where others give way; False where that is of no use now."""
    for _ in range(ATTEMPTS_MAX):
        chosen = look(claim)
        if chosen is None:
            return False
        failpoints.reach(Failpoint.PREEMPTION_CHOSEN)
        with fence():
            rows = queries.locked_together([claim.reservation_id, *chosen.victims])
            mine = rows.pop(claim.reservation_id, None)
            if mine is None or not _still_wants(mine, claim):
                return False
            effects = Effects(own_key=own_key)
            if _carry_out(mine, list(rows.values()), chosen, effects):
                effects.flush()
                return True
    return False


def _still_wants(mine: Reservation, claim: Claim) -> bool:
    is_pending = mine.state == ReservationState.PENDING
    return is_pending and timedelta(milliseconds=mine.duration_ms) == claim.duration


def _start(claim: Claim, terms: Spot, now: datetime) -> datetime:
    """When it may start where others have notice until then, in whole milliseconds (R4)."""
    noticed = now + timedelta(seconds=terms.notice_seconds, milliseconds=1)
    return max(claim.window(now).start, clock.whole(noticed))


def _carry_out(
    mine: Reservation, victims: Sequence[Reservation], chosen: Chosen, effects: Effects
) -> bool:
    """Let them give way and place it; all rows are locked. False: look again, nothing changed."""
    terms = chosen.claim.preempts
    assert terms is not None, "nothing is chosen for spot"
    now = mine.read_at
    begun = [victim for victim in victims if _has_begun(victim, now)]
    start = chosen.start
    if begun:
        start = max(start, _start(chosen.claim, terms, now))
    changed = {victim.id: victim.version for victim in victims} != chosen.victims
    if changed or not all(_may_end(victim, terms, at=start) for victim in begun):
        return False
    catalogue.lock(mine.pool_id)  # an extension books without looking at who places here
    held = {victim.id: tuple(ending.live_allocations(victim)) for victim in victims}
    room = [Room(held[each.id], at=start if each in begun else now) for each in victims]
    claim = replace(chosen.claim, requested_start=start)
    made = placement.place_in_room(claim, chosen.plan, now=now, room=room)
    if made is None:
        return False
    for victim in victims:
        if victim in begun:
            giving_way.announce(victim, end=start, now=now, effects=effects)
        else:
            giving_way.line_up(victim, held[victim.id], now=now, effects=effects)
    assignments.prolong([a.id for each in begun for a in held[each.id]], until=start)
    if begun or not victims:
        mine.conditions = _awaiting(mine, len(begun), start)
    outcomes.record(mine, made, effects)
    return True


def _has_begun(victim: Reservation, now: datetime) -> bool:
    return victim.starts_at is not None and victim.starts_at <= now


def _may_end(victim: Reservation, terms: Spot, *, at: datetime) -> bool:
    """Whether it will have run for as long as the pool guarantees."""
    assert victim.starts_at is not None, "it has begun"
    return victim.starts_at + timedelta(seconds=terms.min_run_seconds) <= at


def _awaiting(mine: Reservation, victims: int, start: datetime) -> Conditions:
    them = {0: "others have", 1: "1 spot reservation has"}.get(victims)
    them = them or f"{victims} spot reservations have"
    return conditions.put(
        mine.conditions,
        ConditionType.AWAITING_PREEMPTION,
        reason="SpotGivesWay",
        message=f"It starts {instants.iso(start)}, when {them} given way to it.",
        now_ms=clock.to_ms(mine.read_at),
    )


def _choose(
    claim: Claim, terms: Spot, now: datetime, *, start: datetime, with_notice: bool
) -> Chosen | None:
    window = Window(start, start + claim.duration)
    versions: dict[str, int] = dict(
        PREEMPTION.all(
            "candidates",
            pool_id=claim.pool_id,
            start=window.start,
            end=window.end,
            now=now,
            with_notice=with_notice,
            min_run_seconds=terms.min_run_seconds,
            limit=CANDIDATES_MAX,
        )
    )
    if not versions and not (with_notice and _gives_way_already(claim)):
        return None
    whole = snapshot.read(claim.pool_id, start=window.start, end=window.end, request=claim.demand)
    choice = planning.choose(
        claim.demand,
        whole,
        _held(claim, window, list(versions)),
        rng=chance.RNG,
        # Nobody gives way for a second try where it failed to bind before.
        exclude_nodes=queries.failed_nodes([claim.reservation_id]).get(
            claim.reservation_id, frozenset()
        ),
    )
    if choice is None or not (choice.victims or (with_notice and _gives_way_already(claim))):
        return None
    victims = {key: versions[key] for key in choice.victims}
    return Chosen(replace(claim, requested_start=start), choice.plan, victims)


def _gives_way_already(claim: Claim) -> bool:
    """Whether a notice runs: what is free behind it may be had without another victim."""
    return PREEMPTION.one("giving_way", pool_id=claim.pool_id, limit=1) is not None


def _held(claim: Claim, window: Window, candidates: list[str]) -> Held:
    """What the candidates hold within the window."""
    places: dict[str, set[str]] = {}
    for candidate, node_id in PREEMPTION.all("places", candidates=candidates):
        places.setdefault(candidate, set()).add(node_id)
    atoms = PREEMPTION.all("atoms", candidates=candidates, start=window.start, end=window.end)
    return Held(
        candidates=tuple(candidates),
        atoms=tuple(_atom(row) for row in atoms),
        resources=tuple(_resources(claim, window, candidates)),
        nodes_of={candidate: frozenset(nodes) for candidate, nodes in places.items()},
    )


def _atom(row: sql.Row) -> HeldAtom:
    device_id, node_id, *kind, holders = row
    return HeldAtom(device_id, node_id, snapshot.cell_of(tuple(kind)), frozenset(holders))


def _resources(claim: Claim, window: Window, candidates: list[str]) -> Iterator[HostResource]:
    """The host resources that the claim asks for, where candidates have some of them."""
    if not claim.demand.resources:
        return
    rows = PREEMPTION.all(
        "amounts",
        candidates=candidates,
        resources=list(claim.demand.resources),
        start=window.start,
        end=window.end,
    )
    for (node_id, resource, capacity), some in groupby(rows, key=lambda row: row[:3]):
        amounts = tuple(HeldAmount(*row[3:]) for row in some if row[3] is not None)
        yield HostResource(node_id, resource, capacity, amounts)
