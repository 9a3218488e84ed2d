"""Demands planned together, in the order of their line (R13, case 7). Pure and bounded.

Promised, of demands in their order:

- Whoever can be served together with those ahead that are served, is: the assignment of those ahead
  is changed for it where that is needed, and none of them loses its place. So nobody is served by
  what somebody ahead could have had. The search for such an assignment is exhaustive as long as its
  budget lasts; devices that may come from several nodes are taken in one way only.
- The first ``protect`` of those that wait keep their place: each has a start at which it would fit,
  as bookings are, and nobody behind is served so that it would not (backfill).
"""

import random
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from bettercompute.wire.capacity import Filter
from bettercompute.wire.reservations import DeviceClass
from pools.planner import choices, shapes
from pools.planner import plan as planner
from pools.planner.plan import NoFit, Plan
from pools.planner.reasons import Reason
from pools.planner.request import Demand, worth
from pools.planner.snapshot import Node
from pools.planner.timeline import Span, Timeline

# Of the search: each step costs the nodes it looks at, and a hundred for itself.
BUDGET = 100_000
STEP = 100
STARTS_MAX = 500  # instants at which somebody's turn could come; behind them its place is not kept

KEPT = "devices that are not kept for reservations ahead in the line"


@dataclass(frozen=True, slots=True)
class Asking:
    """A demand for one window; ``avoid`` are nodes to be taken only where no others will do."""

    key: str
    demand: Demand
    span: Span
    avoid: frozenset[str] = frozenset()

    def is_like(self, other: "Asking") -> bool:
        """Whether what serves one would serve the other."""
        return (self.demand, self.span) == (other.demand, other.span)


@dataclass(frozen=True, slots=True)
class Turn:
    """When, and where, one that waits could be served: kept free of those behind it."""

    span: Span
    plan: Plan


@dataclass(frozen=True, slots=True)
class Batch:
    """What comes of the demands, by key."""

    plans: Mapping[str, Plan]
    waiting: Mapping[str, tuple[Reason, ...]]
    turns: Mapping[str, Turn]


def plan(
    askings: Iterable[Asking], timeline: Timeline, *, rng: random.Random, protect: int = 0
) -> Batch:
    """Plan these demands, the first in line first."""
    planning = _Planning(timeline, rng, protect, bare=timeline, kept=timeline, board=timeline)
    for asking in askings:
        planning.add(asking)
    return Batch(
        plans={key: found for key, (_, found) in planning.placed.items()},
        waiting=planning.waiting,
        turns=planning.turns,
    )


@dataclass(slots=True)
class _Planning:
    """A batch in the making, with the pool as it is for each purpose."""

    timeline: Timeline
    rng: random.Random
    protect: int
    bare: Timeline  #: beside those placed
    kept: Timeline  #: beside those whose turn is kept
    board: Timeline  #: beside both: what the next in line may have
    budget: int = BUDGET
    placed: dict[str, tuple[Asking, Plan]] = field(default_factory=dict)
    waiting: dict[str, tuple[Reason, ...]] = field(default_factory=dict)
    turns: dict[str, Turn] = field(default_factory=dict)
    refused: list[Asking] = field(default_factory=list)
    grouping: shapes.Grouping = field(default_factory=shapes.Grouping)

    def add(self, asking: Asking) -> None:
        """The next in line."""
        alike = next((each for each in self.refused if each.is_like(asking)), None)
        if alike is None:
            found = self._first(asking, self.board)
            if found is not None:
                self._place(asking, found)
                return
            if self._rearrange(asking):
                return
        self.waiting[asking.key] = (
            self._reasons(asking) if alike is None else self.waiting[alike.key]
        )
        self.refused.append(asking)
        if len(self.turns) < self.protect:
            self._keep_place(asking)

    def _first(self, asking: Asking, board: Timeline) -> Plan | None:
        """The best plan on what is free; None: there is none."""
        nodes = _open(board, asking)
        apart = [node for node in nodes if node.id not in asking.avoid]
        found = self._best(asking, apart)
        if found is None and len(apart) < len(nodes):
            found = self._best(asking, nodes)
        return None if found is None else board.tightened(found, asking.span)

    def _best(self, asking: Asking, nodes: Sequence[Node]) -> Plan | None:
        ways = choices.of(asking.demand, nodes, rng=self.rng, group=self.grouping.group)
        return next(ways, None)

    def _place(self, asking: Asking, found: Plan) -> None:
        self.placed[asking.key] = asking, found
        self.bare = self.bare.taking(found, asking.span)
        self.board = self.board.taking(found, asking.span)

    def _rearrange(self, asking: Asking) -> bool:
        """Find room for all that are placed and one more; answers whether there was."""
        if self._first(asking, self.kept) is None or self._too_many(asking):
            return False
        together = sorted([*(each for each, _ in self.placed.values()), asking], key=_hardest)
        found = self._search(together, self.kept)
        if found is None:
            return False
        self.placed, self.bare, self.board = {}, self.timeline, self.kept
        for each, plan in zip(together, found, strict=True):
            self._place(each, plan)
        return True

    def _too_many(self, asking: Asking) -> bool:
        """Whether there are too few devices of its kind, wherever those placed would go."""
        kind = _kind(asking.demand)
        if kind is None:
            return False
        instant = Span(asking.span.start, asking.span.start + 1)
        rivals = [
            each.demand
            for each, _ in self.placed.values()
            if each.span.meets(instant) and _kind(each.demand) == kind
        ]
        free = sum(
            len(cell.free)
            for node in self.kept.view(instant, ()).nodes
            for cell in node.cells
            if (cell.device_class, cell.profile) == kind
        )
        return sum(_atoms(demand) for demand in [asking.demand, *rivals]) > free

    def _search(self, askings: Sequence[Asking], board: Timeline) -> list[Plan] | None:
        """A plan for each of these, the first one's choices from the best on."""
        if not askings:
            return []
        first, rest = askings[0], askings[1:]
        nodes = _open(board, first)
        labels = sorted({key for each in askings for key in shapes.labels_that_matter(each.demand)})

        def kind(node: Node) -> Hashable:
            return board.node(node.id).kind(labels)

        for choice in choices.of(first.demand, nodes, rng=self.rng, kind=kind):
            self.budget -= STEP + len(nodes)
            if self.budget < 0:
                return None
            found = board.tightened(choice, first.span)
            others = self._search(rest, board.taking(found, first.span))
            if others is not None:
                return [found, *others]
        return None

    def _reasons(self, asking: Asking) -> tuple[Reason, ...]:
        """Why it waits: what the pool lacks, or that those ahead have what it has."""
        view = self.bare.view(asking.span, tuple(asking.demand.resources))
        judged = planner.plan(asking.demand, view, rng=self.rng)
        if isinstance(judged, NoFit):
            return judged.reasons
        until = max((turn.span.end for turn in self.turns.values()), default=None)
        return (Reason(Filter.BUSY, KEPT, nodes=len(judged.parts), until_ms=until),)

    def _keep_place(self, asking: Asking) -> None:
        """Keep free what it could have first, where it could have anything."""
        if self._first(asking, self.timeline.emptied()) is None:
            return
        for span, nodes in islice(_later(self.board, asking), STARTS_MAX):
            found = next(choices.of(asking.demand, nodes, rng=self.rng), None)
            if found is not None:
                self.turns[asking.key] = Turn(span, found)
                self.kept = self.kept.taking(found, span)
                self.board = self.board.taking(found, span)
                return


def _open(board: Timeline, asking: Asking) -> list[Node]:
    """The nodes that have anything free in its window."""
    view = board.view(asking.span, tuple(asking.demand.resources))
    return [node for node in view.nodes if any(cell.free for cell in node.cells)]


def _later(board: Timeline, asking: Asking) -> Iterator[tuple[Span, list[Node]]]:
    """Windows behind its own, each with the nodes that may serve it then and not before."""
    names, length = tuple(asking.demand.resources), asking.span.end - asking.span.start
    alone = asking.demand.gang is None and not asking.demand.may_spread
    for start, changed in board.given_back(after=asking.span.start, until=board.span.end - length):
        span = Span(start, start + length)
        some = changed if alone else board.node_ids()
        yield span, [board.node(node_id).look(span, names) for node_id in some]


def _hardest(asking: Asking) -> tuple[bool, int, int]:
    """What needs much of one node first, then what needs many; what may be spread last."""
    demand = asking.demand
    nodes = 1 if demand.gang is None else demand.gang.nodes
    per_node = sum(
        min(line.minimum * worth(line.device_class, demand.replicas) for line in options)
        for options in demand.lines
    )
    return demand.may_spread, -per_node, -nodes


def _kind(demand: Demand) -> tuple[DeviceClass, str] | None:
    """The one kind of device that it is about, if it is about one."""
    kinds = {(line.device_class, line.profile) for options in demand.lines for line in options}
    return kinds.pop() if len(kinds) == 1 else None


def _atoms(demand: Demand) -> int:
    """How many devices it takes at least."""
    nodes = 1 if demand.gang is None else demand.gang.nodes
    return nodes * sum(min(line.minimum for line in options) for options in demand.lines)
