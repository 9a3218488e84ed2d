"""A pool over time: what is booked of it when, as a batch needs that plans several windows at once.

``Timeline.view`` is the pool for one window, as a snapshot of its own would show it;
``Timeline.taking`` is the same pool once a plan is booked, and nothing else has changed. Instants
are epoch milliseconds.
"""

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from pools.planner.packing import Part
from pools.planner.plan import Plan
from pools.planner.snapshot import Cell, Node, Snapshot


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """``[start, end)``."""

    start: int
    end: int

    def meets(self, other: "Span") -> bool:
        """Whether the two have an instant in common; neighbours only touch."""
        return self.start < other.end and other.start < self.end


@dataclass(frozen=True, slots=True, order=True)
class Amount:
    """What somebody books of a host's resource, and when."""

    resource: str
    amount: int
    span: Span


_View = tuple[Span, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class TimedNode:
    """A host, and what is booked of it when.

    ``whole`` is the host with nothing booked: every healthy atom free, all of its resources there.
    """

    whole: Node
    booked: Mapping[str, tuple[Span, ...]] = field(default_factory=dict)  #: by atom
    claimed: tuple[Amount, ...] = ()
    worked_on: tuple[Span, ...] = ()  #: when there is maintenance
    _views: dict[_View, Node] = field(default_factory=dict, compare=False, repr=False)

    def view(self, span: Span, resources: Sequence[str]) -> Node:
        """The host for one window, with what it has of these resources at the window's peak."""
        steady = not (self.booked or self.claimed or self.worked_on)
        key = Span(0, 0) if steady else span, tuple(resources)
        if key not in self._views:
            self._views[key] = self.look(span, resources)
        return self._views[key]

    def look(self, span: Span, resources: Sequence[str]) -> Node:
        """The same, for a window that nobody will ask for again."""
        capacity = {
            name: self.whole.resources[name] for name in resources if name in self.whole.resources
        }
        return replace(
            self.whole,
            cells=tuple(self._cell(cell, span) for cell in self.whole.cells),
            resources={name: most - self._peak(name, span) for name, most in capacity.items()},
            capacity=capacity,
            worked_on_until=max(
                (each.end for each in self.worked_on if each.meets(span)), default=None
            ),
        )

    def taking(self, part: Part, span: Span) -> "TimedNode":
        """The host once this part of a plan is booked for a window."""
        booked = dict(self.booked)
        for atom in part.device_ids:
            booked[atom] = (*booked.get(atom, ()), span)
        amounts = [Amount(name, amount, span) for name, amount in part.resources.items()]
        return TimedNode(self.whole, booked, (*self.claimed, *amounts), self.worked_on)

    def tightened(self, part: Part, span: Span) -> Part:
        """The part with those of equal atoms that are booked again soonest behind the window.

        All atoms of a cell serve this window alike, but who takes one that is free for ever takes
        it from a longer window that needs just that.
        """
        chosen: list[str] = []
        wanted = set(part.device_ids)
        for cell in self.view(span, ()).cells:
            taken = [atom for atom in cell.free if atom in wanted]
            if taken:
                # Those the plan took come first among equals: they were taken at random (C18).
                ordered = sorted(
                    cell.free, key=lambda atom: (self._again(atom, span), atom not in wanted)
                )
                chosen += ordered[: len(taken)]
        return replace(part, device_ids=tuple(sorted(chosen)))

    def kind(self, labels: Sequence[str]) -> Hashable:
        """The same for hosts that serve every window alike, as far as these labels matter."""
        whole = self.whole
        return (
            (whole.state, whole.cordoned, whole.connected, whole.taints),
            tuple(whole.label(key) for key in labels),
            tuple(sorted(whole.resources.items())),
            tuple(self._cell_kind(cell) for cell in whole.cells),
            tuple(sorted(self.claimed)),
            self.worked_on,
        )

    def _cell_kind(self, cell: Cell) -> Hashable:
        booked = sorted(sorted(self.booked[atom]) for atom in cell.free if atom in self.booked)
        alike = replace(cell, free=())
        return alike, len(cell.free), tuple(map(tuple, booked))

    def ends(self) -> set[int]:
        """The instants at which something of the host is given back."""
        spans = [span for spans in self.booked.values() for span in spans]
        spans += [each.span for each in self.claimed]
        return {span.end for span in (*spans, *self.worked_on)}

    def _cell(self, cell: Cell, span: Span) -> Cell:
        until = {atom: self._until(atom, span) for atom in cell.free if atom in self.booked}
        busy = sorted(end for end in until.values() if end is not None)
        if not busy:
            return cell
        free = tuple(atom for atom in cell.free if until.get(atom) is None)
        return replace(cell, free=free, busy_until=tuple(busy))

    def _until(self, atom: str, span: Span) -> int | None:
        """When the last booking of an atom that meets the window ends; None: it is free."""
        return max((each.end for each in self.booked[atom] if each.meets(span)), default=None)

    def _again(self, atom: str, span: Span) -> float:
        """When the atom is booked again, behind a window in which it is free."""
        starts = [each.start for each in self.booked.get(atom, ()) if each.start >= span.end]
        return min(starts, default=math.inf)

    def _peak(self, resource: str, span: Span) -> int:
        """The most that is claimed of a resource at any instant of a window."""
        claims = [each for each in self.claimed if each.resource == resource]
        edges = sorted(
            edge
            for each in claims
            if each.span.meets(span)
            for edge in (
                (max(each.span.start, span.start), each.amount),
                (each.span.end, -each.amount),
            )
        )
        peak = level = 0
        # At equal instants the sort puts what ends first.
        for _, change in edges:
            level += change
            peak = max(peak, level)
        return peak


@dataclass(frozen=True, slots=True)
class _Base:
    """The nodes as they were read, and where each of them stands."""

    nodes: tuple[TimedNode, ...]
    places: Mapping[str, int]
    _views: dict[_View, tuple[Node, ...]] = field(default_factory=dict, compare=False, repr=False)

    def view(self, span: Span, resources: Sequence[str]) -> tuple[Node, ...]:
        key = span, tuple(resources)
        if key not in self._views:
            self._views[key] = tuple(node.view(span, resources) for node in self.nodes)
        return self._views[key]


@dataclass(frozen=True, slots=True)
class Timeline:
    """The nodes of a pool, with what is booked of them within a span."""

    span: Span
    base: _Base
    changed: Mapping[str, TimedNode] = field(default_factory=dict)  #: by what was planned since

    def node(self, node_id: str) -> TimedNode:
        """A node as it is by now."""
        return self.changed.get(node_id) or self.base.nodes[self.base.places[node_id]]

    def node_ids(self) -> list[str]:
        """All of them."""
        return list(self.base.places)

    def view(self, span: Span, resources: Sequence[str]) -> Snapshot:
        """The pool for one window within the timeline."""
        nodes = list(self.base.view(span, resources))
        for node_id, node in self.changed.items():
            nodes[self.base.places[node_id]] = node.view(span, resources)
        return Snapshot(tuple(nodes))

    def taking(self, plan: Plan, span: Span) -> "Timeline":
        """The pool once the plan is booked for a window."""
        taken = {part.node_id: self.node(part.node_id).taking(part, span) for part in plan.parts}
        return replace(self, changed={**self.changed, **taken})

    def tightened(self, plan: Plan, span: Span) -> Plan:
        """The same plan with the atoms that others miss least."""
        parts = tuple(self.node(part.node_id).tightened(part, span) for part in plan.parts)
        return replace(plan, parts=parts)

    def emptied(self) -> "Timeline":
        """The pool with nothing booked: what it could ever serve."""
        return of((TimedNode(node.whole) for node in self.base.nodes), self.span)

    def given_back(self, *, after: int, until: int) -> Iterator[tuple[int, list[str]]]:
        """The instants at which nodes get something back, in order, with those nodes' ids."""
        ends = sorted(
            (end, node_id)
            for node_id in self.base.places
            for end in self.node(node_id).ends()
            if after < end <= until
        )
        for instant, group in groupby(ends, key=lambda pair: pair[0]):
            yield instant, [node_id for _, node_id in group]


def of(nodes: Iterable[TimedNode], span: Span) -> Timeline:
    """A timeline of these nodes."""
    all_of_them = tuple(nodes)
    places = {node.whole.id: place for place, node in enumerate(all_of_them)}
    return Timeline(span, _Base(all_of_them, places))
