"""The queued placer: the line of a pool, placed in batches by one process at a time (R13).

The holder of the lease ``pool:<id>`` reads the line by priority, then age, plans up to 50 of it
together on one view of the pool, and commits the plan in one transaction. The shard's holder runs
it, and a shard may change hands while somebody still plans: the pool's own lease keeps two from
planning into each other, and fences what the first of them would commit too late.

What a rival took in between (an extension, a repair) sends the whole batch back to be planned anew,
so that nobody behind gets what one ahead would then have needed. The last try keeps what it can.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from bettercompute import clock, failpoints
from bettercompute.coordination import fencing, leases
from bettercompute.coordination.fencing import Fence
from bettercompute.coordination.leases import Lease
from bettercompute.coordination.runner import At, Done, Outcome
from bettercompute.failpoints import Failpoint
from bettercompute.states import ReservationState
from bettercompute.telemetry import metrics, tracing
from pools import catalogue, chance, timeline
from pools.catalogue import PoolAccess
from pools.planner import batch as planner
from pools.planner.batch import Asking, Batch
from pools.planner.reasons import Reason
from pools.planner.timeline import Span
from reservations import lifecycle, moments, outcomes, placement, queries, trials
from reservations.lifecycle import Effects
from reservations.models import Reservation
from reservations.placement import Claim, Placed, Unplaced
from reservations.placing import batch_placement, pending
from reservations.placing.batch_placement import Chosen, Lost
from reservations.spot import early_start, giving_way, preemption

BATCH_MAX = 50
LINE_MAX = 1_000  # of one run; who stands behind them has a turn when the line is shorter
PROTECT_AHEAD = timedelta(days=7)  # how far ahead a turn is looked for and kept
ELSEWHERE_RETRY = timedelta(seconds=1)  # somebody else places this pool's line now


@dataclass(frozen=True, slots=True)
class _Planned:
    """A batch before its transaction: in the order of the line, as its rows were read."""

    rows: Mapping[str, Reservation]
    claims: Mapping[str, Claim]
    batch: Batch


class _Overtaken(Exception):
    """Rivals were faster: on which nodes, by reservation."""

    def __init__(self, lost: Mapping[str, frozenset[str]]) -> None:
        self.lost = lost
        super().__init__(", ".join(sorted(lost)))


class _Deposed(Exception):
    """The pool's lease is somebody else's; nothing was written."""


def lease_name(pool_id: str) -> str:
    """The lease of a pool's placer."""
    return f"pool:{pool_id}"


def place_line(access: PoolAccess, fence: Fence) -> Outcome:
    """Place whoever has a place, the first in line first; answers when to look again."""
    line = [
        reservation_id
        for (reservation_id,) in queries.RESERVATIONS.all(
            "pending_in_pool", pool_id=access.pool_id, limit=LINE_MAX
        )
    ]
    rivals = False
    try:
        for first in range(0, len(line), BATCH_MAX):
            with leases.term(lease_name(access.pool_id)) as lease:
                rivals |= _place(access, line[first : first + BATCH_MAX], lease, fence)
    except _Deposed:
        return At(clock.now() + ELSEWHERE_RETRY)
    early_start.try_all(access.pool_id, fence)
    giving_way.spare(access.pool_id, fence)  # behind those who wait: what nobody else needs
    if not line:
        return Done()
    return At(clock.now() + (moments.RIVAL_RETRY if rivals else moments.PENDING_RETRY))


def _place(access: PoolAccess, line: Sequence[str], lease: Lease | None, fence: Fence) -> bool:
    """One batch; answers whether any of it lost to rivals to the last.

    Raises:
        _Deposed: somebody else places this pool's line.
    """
    if lease is None:
        raise _Deposed
    lost: dict[str, frozenset[str]] = {}
    for attempt in range(1, placement.ATTEMPTS_MAX + 1):
        with tracing.span("plan batch"), metrics.placing("plan-batch"):
            planned = _plan(access, line, lost)
        failpoints.reach(Failpoint.PLACEMENT_PLANNED)
        try:
            with fence():
                if not fencing.in_force(lease):
                    raise _Deposed
                with tracing.span("book batch"), metrics.placing("book-batch"):
                    rivals = _commit(access, planned, whole=attempt < placement.ATTEMPTS_MAX)
        except _Overtaken as overtaken:
            for key, nodes in overtaken.lost.items():
                lost[key] = lost.get(key, frozenset()) | nodes
        else:
            _preempt(planned, fence)
            return rivals
    raise AssertionError("the last attempt keeps what it can")


def _plan(access: PoolAccess, line: Sequence[str], lost: Mapping[str, frozenset[str]]) -> _Planned:
    """Plan those of the line that still wait, on the pool as it is now."""
    now = clock.now()
    found = Reservation.objects.filter(id__in=line, state=ReservationState.PENDING).in_bulk()
    rows = {
        key: found[key] for key in line if key in found and pending.until(found[key], access) > now
    }
    claims = {key: pending.claim_of(row, access) for key, row in rows.items()}
    failed = queries.failed_nodes(rows)
    askings = [
        Asking(
            key,
            claim.demand,
            _span(claim, now),
            avoid=failed.get(key, frozenset()) | lost.get(key, frozenset()),
        )
        for key, claim in claims.items()
    ]
    if not askings:
        return _Planned({}, {}, Batch({}, {}, {}))
    protect = access.policy.queue.protect
    seen = timeline.read(
        access.pool_id, start=clock.whole(now), end=_horizon(askings, now, protect=protect)
    )
    return _Planned(rows, claims, planner.plan(askings, seen, rng=chance.RNG, protect=protect))


def _span(claim: Claim, now: datetime) -> Span:
    window = claim.window(now)
    return Span(clock.to_ms(window.start), clock.to_ms(window.end))


def _horizon(askings: Sequence[Asking], now: datetime, *, protect: int) -> datetime:
    """Until when bookings matter: to the end of every window, and of every turn that is kept."""
    last = max(asking.span.end for asking in askings)
    if protect:
        longest = max(asking.span.end - asking.span.start for asking in askings)
        last = max(last, clock.to_ms(now + PROTECT_AHEAD) + longest)
    return clock.from_ms(last)


def _preempt(planned: _Planned, fence: Fence) -> None:
    """Whoever found no place may have one where spot gives way (R19), the first in line first."""
    for key, reasons in planned.batch.waiting.items():
        if not any(reason.needs == planner.KEPT for reason in reasons):
            preemption.try_preempt(planned.claims[key], fence)


def _commit(access: PoolAccess, planned: _Planned, *, whole: bool) -> bool:
    """Book the plans and write down what became of all; answers whether any lost to rivals.

    Raises:
        _Overtaken: some lost, and the batch is to be kept ``whole``.
    """
    locked = {
        key: row
        for key, row in queries.locked_together(list(planned.rows)).items()
        if _is_as_read(row, planned.rows[key])
    }
    catalogue.lock(access.pool_id)
    made = batch_placement.place(list(_chosen(planned, locked)))
    lost = {key: each.nodes for key, each in made.items() if isinstance(each, Lost)}
    if lost and whole:
        raise _Overtaken(lost)
    effects = Effects()
    for key in planned.rows:
        if key in locked:
            outcome = _outcome(made.get(key), planned.batch.waiting.get(key, ()))
            outcomes.record(locked[key], outcome, effects, retried_by_pool=True)
            if isinstance(outcome, Unplaced):
                _estimate(locked[key], effects)
    effects.flush()
    return bool(lost)


def _estimate(reservation: Reservation, effects: Effects) -> None:
    """Have it looked at when its earliest start is to be worked out (again)."""
    trial = trials.restore(reservation.waiting)
    due = None if trial is None else trials.estimate_due(trial)
    if due is not None:
        effects.wake(lifecycle.KIND, reservation.id, due)


def _is_as_read(row: Reservation, read: Reservation) -> bool:
    """Whether it still waits for what was planned; whoever changed it woke the pool."""
    return row.state == ReservationState.PENDING and row.duration_ms == read.duration_ms


def _chosen(planned: _Planned, locked: Mapping[str, Reservation]) -> Iterator[Chosen]:
    for key, claim in planned.claims.items():
        if key in locked and key in planned.batch.plans:
            window = claim.window(locked[key].read_at)
            yield Chosen(claim, planned.batch.plans[key], window)


def _outcome(made: Placed | Lost | None, waiting: Sequence[Reason]) -> Placed | Unplaced:
    match made:
        case Placed():
            return made
        case Lost():
            return Unplaced((), lost_to_rivals=True)
        case None:
            return Unplaced(tuple(waiting), lost_to_rivals=False)
