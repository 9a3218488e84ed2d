"""Whether a demand fits a small pool, by trying everything.

Written apart from the planner: it knows nothing of cells, shapes, flows or caps. A pool is a list
of single atoms, a request is served or not by a set of them, and every set is tried. What the words
of a request mean (a selector, a taint, a share) is written here once more.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from bettercompute.wire.reservations import DeviceClass, GangTopology, Topology
from pools.planner.request import Demand, Line, Term
from pools.planner.snapshot import Cell, Node, Snapshot

LIMITS = "bc.dev/cap.devices.limits"
PLACES = {
    GangTopology.SAME_RACK: "topology.bc.dev/rack",
    GangTopology.SAME_SWITCH: "topology.bc.dev/switch",
}


@dataclass(frozen=True)
class Atom:
    """One free device, and where it is."""

    id: str
    node: Node
    cell: Cell


def fits(demand: Demand, snapshot: Snapshot) -> bool:
    """Whether any choice of alternatives, nodes and devices serves the demand."""
    return any(_combination_fits(demand, lines, snapshot) for lines in product(*demand.lines))


def serves(demand: Demand, lines: Sequence[Line], atoms: Sequence[Atom]) -> bool:
    """Whether exactly these atoms serve the lines, each within its range, on nodes that may."""
    nodes = {atom.node.id: atom.node for atom in atoms}
    return (
        all(eligible(demand, lines, node) for node in nodes.values())
        and all(
            _host_gives(demand, node, [a for a in atoms if a.node.id == node.id])
            for node in nodes.values()
        )
        and _shared_out(list(lines), list(atoms))
    )


def atoms_of(nodes: Sequence[Node]) -> list[Atom]:
    """Every free atom of these nodes."""
    return [Atom(i, node, cell) for node in nodes for cell in node.cells for i in cell.free]


def eligible(demand: Demand, lines: Sequence[Line], node: Node) -> bool:
    """Whether the node takes this kind of work at all."""
    if node.state != "ready" or node.cordoned or node.worked_on_until is not None:
        return False
    for taint in node.taints:
        tolerated = any(
            each.key == taint.key and (each.value is None or each.value == taint.value)
            for each in demand.tolerations
        )
        if taint.effect != "PreferNoSchedule" and not tolerated:
            return False
    needed = list(demand.labels)
    if demand.resources and node.resources:
        needed.append(LIMITS)
    if any(key not in node.system_labels for key in needed):
        return False
    terms = [term for line in lines for term in line.selector if not _of_device(term)]
    return all(_label_holds(term, node) for term in terms)


def _combination_fits(demand: Demand, lines: Sequence[Line], snapshot: Snapshot) -> bool:
    nodes = [node for node in snapshot.nodes if eligible(demand, lines, node)]
    if demand.gang is None and demand.may_spread:
        return _some_serve(demand, lines, atoms_of(nodes))
    able = [node for node in nodes if _some_serve(demand, lines, atoms_of([node]))]
    if demand.gang is None:
        return bool(able)
    label = PLACES.get(demand.gang.topology)
    if label is None:
        return len(able) >= demand.gang.nodes
    places = [node.labels[label] for node in able if label in node.labels]
    return any(places.count(place) >= demand.gang.nodes for place in places)


def _some_serve(demand: Demand, lines: Sequence[Line], atoms: Sequence[Atom]) -> bool:
    """Whether some atoms serve the least that each line asks for."""
    return any(
        all(
            _host_gives(demand, atom.node, [a for a in chosen if a.node.id == atom.node.id])
            for atom in chosen
        )
        for chosen in _ways(list(lines), list(atoms))
    )


def _ways(lines: list[Line], atoms: list[Atom]) -> Iterator[list[Atom]]:
    """Every way to give each line its minimum; ways that differ only in ids count once."""
    if not lines:
        yield []
        return
    seen = set()
    matching = [atom for atom in atoms if _matches(lines[0], atom.cell)]
    for chosen in combinations(matching, lines[0].minimum):
        kinds = tuple(sorted((atom.node.id, id(atom.cell)) for atom in chosen))
        if kinds in seen or not _near(lines[0], chosen):
            continue
        seen.add(kinds)
        left = [atom for atom in atoms if atom not in chosen]
        for rest in _ways(lines[1:], left):
            yield [*chosen, *rest]


def _shared_out(lines: list[Line], atoms: list[Atom]) -> bool:
    """Whether all of these atoms can be handed to the lines, each within its range."""
    if not lines:
        return not atoms
    matching = [atom for atom in atoms if _matches(lines[0], atom.cell)]
    for count in range(lines[0].minimum, min(lines[0].maximum, len(matching)) + 1):
        for chosen in combinations(matching, count):
            if _near(lines[0], chosen) and _shared_out(
                lines[1:], [atom for atom in atoms if atom not in chosen]
            ):
                return True
    return False


def _matches(line: Line, cell: Cell) -> bool:
    if (cell.device_class, cell.profile) != (line.device_class, line.profile):
        return False
    return all(_device_holds(term, cell) for term in line.selector if _of_device(term))


def _near(line: Line, atoms: Sequence[Atom]) -> bool:
    if len(atoms) <= 1:
        return True
    if line.topology is not Topology.ANY and len({atom.node.id for atom in atoms}) > 1:
        return False
    if line.topology is Topology.SAME_NUMA:
        where = {atom.cell.numa_node for atom in atoms}
    elif line.topology is Topology.NVLINK_ALL:
        where = {atom.cell.nvlink_group for atom in atoms}
        if any(atom.cell.device_class is not DeviceClass.GPU for atom in atoms):
            return False
    else:
        return True
    return len(where) == 1 and None not in where


def _host_gives(demand: Demand, node: Node, atoms: Sequence[Atom]) -> bool:
    """Whether the host has the share that comes with these devices, rounded down (R30)."""
    if not demand.resources:
        return True
    if not node.resources and not demand.resources_asked:
        return True  # it counts none, and nobody insists; who does gets what rounds down to nothing
    worth = {
        DeviceClass.GPU: 7 * demand.replicas,
        DeviceClass.MIG: demand.replicas,
        DeviceClass.SLOT: 7,
    }
    full = sum(
        max(line.maximum * worth[line.device_class] for line in options) for options in demand.lines
    )
    taken = sum(worth[atom.cell.device_class] for atom in atoms)
    return all(
        total * taken // full <= node.resources.get(name, 0)
        for name, total in demand.resources.items()
    )


def _of_device(term: Term) -> bool:
    return term.key in {"model", "memoryGiB", "driver"}


def _device_holds(term: Term, cell: Cell) -> bool:
    actual: str | int = {
        "model": cell.model.lower(),
        "memoryGiB": -(-cell.memory_mib // 1024),
        "driver": cell.driver,
    }[term.key]
    wanted = [value.lower() if isinstance(value, str) else value for value in term.values]
    return {
        "=": lambda: actual == wanted[0],
        "in": lambda: actual in wanted,
        "!=": lambda: actual != wanted[0],
        ">=": lambda: isinstance(actual, int) and actual >= int(wanted[0]),
        "exists": lambda: bool(actual),
    }[term.op]()


def _label_holds(term: Term, node: Node) -> bool:
    labels = node.system_labels if term.key.startswith("bc.dev/") else node.labels
    actual = labels.get(term.key)
    return {
        "=": lambda: actual == term.values[0],
        "in": lambda: actual in term.values,
        "!=": lambda: actual != term.values[0],
        ">=": lambda: (
            actual is not None and actual.isdigit() and int(actual) >= int(term.values[0])
        ),
        "exists": lambda: actual is not None,
    }[term.op]()
