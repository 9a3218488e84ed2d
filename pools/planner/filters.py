"""Which nodes may serve the lines at all, and what is wrong with those that may not (R20).

Each filter is asked in ``reasons.ORDER``; the first that a node fails names its reason.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from bettercompute import units, wanted
from bettercompute.states import NodeState
from bettercompute.units import Unit
from bettercompute.wire.capacity import Filter
from bettercompute.wire.reservations import Topology
from pools.planner import terms, topology
from pools.planner.reasons import Rejection
from pools.planner.request import LIMITS_LABEL, Demand, Line, Term, Toleration, worth
from pools.planner.snapshot import Cell, Node, Taint

PREFER_NO_SCHEDULE = "PreferNoSchedule"
MAINTENANCE = "a node without maintenance in that time"

# Lines, what a cell counts for, the cap of worth, and what is wrong where they do not fit.
_Stage = tuple[Sequence[Line], Callable[[Cell], int], int | None, Rejection]


def admits(node: Node, lines: Sequence[Line], demand: Demand) -> bool:
    """Whether the node takes this kind of work: everything but how much it has left."""
    return _unfit(node, lines, demand) is None


def cap(node: Node, demand: Demand) -> int | None:
    """The most worth that the node's free host resources carry; None: as much as there is."""
    if not demand.resources or (not node.resources and not demand.resources_asked):
        return None
    full = demand.full_worth
    # The most w with total * w // full <= free.
    return min(
        ((max(node.resources.get(name, 0), -1) + 1) * full - 1) // total
        for name, total in demand.resources.items()
    )


def amounts(node: Node, worth_taken: int, demand: Demand) -> dict[str, int]:
    """What the node books of its host resources, in proportion to the devices it gives (R30)."""
    if not node.resources:
        return {}
    booked = amounts_at(worth_taken, demand)
    return {name: amount for name, amount in booked.items() if amount > 0}


def amounts_at(worth_taken: int, demand: Demand) -> dict[str, int]:
    """Of each resource the demand books, what goes with devices of so much worth."""
    return {
        name: total * worth_taken // demand.full_worth for name, total in demand.resources.items()
    }


def least_worth(lines: Sequence[Line], demand: Demand) -> int:
    """What the lines are worth at their least counts."""
    return sum(line.minimum * one for line, one in zip(lines, worths(lines, demand), strict=True))


def rejection(
    node: Node, lines: Sequence[Line], demand: Demand, budget: topology.Budget
) -> Rejection:
    """The first filter that a node which cannot serve the lines fails."""
    if not node.has_reported:
        return Rejection(Filter.STATE, "a node that has joined")
    asked = " + ".join(str(line) for line in lines)
    loose = [replace(line, topology=Topology.SAME_NODE, selector=()) for line in lines]
    plain = [replace(line, topology=Topology.SAME_NODE) for line in lines]
    cards = [
        replace(line, selector=tuple(term for term in line.selector if term.of_hardware))
        for line in plain
    ]
    all_worths = worths(lines, demand)

    def first_failed(stages: Sequence[_Stage]) -> Rejection | None:
        for some, supply, limit, found in stages:
            amounts = [supply(cell) for cell in node.cells]
            # Of a node as a whole it is only counted: a search that was cut short says nothing.
            steps = budget if some is lines else topology.Budget()
            if (
                topology.allot(
                    some, node.cells, amounts, worths=all_worths, cap=limit, budget=steps
                )
                is None
            ):
                return found
        return None

    few = Rejection(Filter.CLASS, asked, most=_by_kind(node, lines))
    others = Rejection(Filter.MODEL, _device_needs(cards), most=_by_model(node, lines))
    drivers = Rejection(Filter.MODEL, _device_needs(lines))  # another may be installed any day
    return (
        first_failed([(loose, _total, None, few), (cards, _total, None, others)])
        or first_failed([(plain, _total, None, drivers)])
        or _mislabelled(node, lines, demand)
        or _too_small(node, lines, demand)
        or _shut(node, demand)
        or first_failed(
            [
                (plain, _healthy, None, Rejection(Filter.STATE, f"{asked} healthy")),
                (lines, _healthy, None, Rejection(Filter.TOPOLOGY, asked)),
                (lines, _free, None, Rejection(Filter.BUSY, f"{asked} free")),
                (
                    lines,
                    _free,
                    cap(node, demand),
                    Rejection(Filter.RESOURCES, _amounts_text(lines, demand)),
                ),
            ]
        )
        or Rejection(Filter.BUSY, f"{asked} free")  # nothing but that it was excluded
    )


def free_at(
    node: Node, lines: Sequence[Line], demand: Demand, budget: topology.Budget
) -> int | None:
    """When enough of what is booked now will have ended, as far as bookings say today."""
    moments = sorted({end for cell in node.cells for end in cell.busy_until})

    def fits(moment: int) -> bool:
        supply = [
            len(cell.free) + sum(end <= moment for end in cell.busy_until) for cell in node.cells
        ]
        counts = topology.allot(
            lines, node.cells, supply, worths=worths(lines, demand), cap=None, budget=budget
        )
        return counts is not None

    first = bisect_left(moments, True, key=fits)
    return moments[first] if first < len(moments) else None


def worths(lines: Sequence[Line], demand: Demand) -> list[int]:
    """What a device of each line is worth."""
    return [worth(line.device_class, demand.replicas) for line in lines]


def late_choice(node: Node, demand: Demand) -> int:
    """How much a node is to be avoided while another will do: soft taints, then silence."""
    soft = any(
        taint.effect == PREFER_NO_SCHEDULE and not _tolerated(taint, demand.tolerations)
        for taint in node.taints
    )
    return 2 * (not node.connected) + soft


def _unfit(node: Node, lines: Sequence[Line], demand: Demand) -> Rejection | None:
    """What of the node itself is wrong, whatever its devices."""
    return _mislabelled(node, lines, demand) or _shut(node, demand)


def _mislabelled(node: Node, lines: Sequence[Line], demand: Demand) -> Rejection | None:
    for key in _needed_system_labels(node, demand):
        if node.label(key) is None:
            return Rejection(Filter.LABELS, wanted.term(key, "exists", ()))
    for term in label_terms(lines):
        if not terms.label_holds(term, node):
            return Rejection(Filter.LABELS, str(term))
    return None


def _too_small(node: Node, lines: Sequence[Line], demand: Demand) -> Rejection | None:
    """Whether the host has too little even with nothing booked: waiting does not help."""
    if not demand.resources or not node.capacity:
        return None
    least = amounts_at(least_worth(lines, demand), demand)
    lacking = {
        name: amount for name, amount in least.items() if amount > node.capacity.get(name, 0)
    }
    if not lacking:
        return None
    most = {units.of(name): node.capacity.get(name, 0) for name in lacking}
    return Rejection(Filter.CAPABILITY, f"a host with {_told(lacking)}", most=most)


def devices_of(node: Node, line: Line) -> int:
    """How many devices of a line's class the node has, whatever holds them."""
    return sum(
        cell.total for cell in node.cells if topology.matches(line, cell, with_selector=False)
    )


def _by_kind(node: Node, lines: Sequence[Line]) -> Mapping[Unit, int]:
    return {line.unit: devices_of(node, line) for line in lines}


def _by_model(node: Node, lines: Sequence[Line]) -> Mapping[Unit, int]:
    """What there is of the classes asked for, by model."""
    found: Counter[Unit] = Counter()
    for cell in node.cells:
        if any(topology.matches(line, cell, with_selector=False) for line in lines):
            found[Unit(f"× {cell.model}", f"× {cell.model}")] += cell.total
    return found


def _shut(node: Node, demand: Demand) -> Rejection | None:
    """Why it takes none of this work in that time, whatever it has."""
    for taint in node.taints:
        if taint.effect != PREFER_NO_SCHEDULE and not _tolerated(taint, demand.tolerations):
            return Rejection(Filter.TAINT, f"toleration of {taint}")
    if node.state != NodeState.READY:
        return Rejection(Filter.STATE, "a node that is ready")
    if node.cordoned:
        return Rejection(Filter.STATE, "a node that is not cordoned")
    if node.worked_on_until is not None:
        return Rejection(Filter.STATE, MAINTENANCE, until_ms=node.worked_on_until)
    return None


def label_terms(lines: Sequence[Line]) -> list[Term]:
    """The terms of all lines that are judged on the node's labels."""
    return [term for line in lines for term in line.selector if not term.of_device]


def _needed_system_labels(node: Node, demand: Demand) -> tuple[str, ...]:
    """R30: where host resources are booked, the node must enforce them."""
    books = bool(demand.resources) and bool(node.resources)
    return (*demand.labels, LIMITS_LABEL) if books else demand.labels


def _tolerated(taint: Taint, tolerations: Sequence[Toleration]) -> bool:
    return any(
        toleration.key == taint.key and toleration.value in {None, taint.value}
        for toleration in tolerations
    )


def _total(cell: Cell) -> int:
    return cell.total


def _free(cell: Cell) -> int:
    return len(cell.free)


def _healthy(cell: Cell) -> int:
    return cell.total - cell.unhealthy


def _device_needs(lines: Sequence[Line]) -> str:
    terms = [term for line in lines for term in line.selector if term.of_device]
    return ", ".join(dict.fromkeys(str(term) for term in terms))


def _amounts_text(lines: Sequence[Line], demand: Demand) -> str:
    return _told(amounts_at(least_worth(lines, demand), demand))


def _told(amounts: Mapping[str, int]) -> str:
    return ", ".join(
        units.counted(units.of(name), amount) for name, amount in sorted(amounts.items()) if amount
    )
