"""Makers of planner input: nodes of few words, and strategies for whatever a pool may look like."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from bettercompute.wire.reservations import DeviceClass, GangTopology, Topology
from pools.planner.request import Demand, Gang, Line, Term, Toleration
from pools.planner.snapshot import Cell, Node, Snapshot, Taint

_numbers = itertools.count(1)


def cell(free: int, *, busy: Sequence[int] = (), unhealthy: int = 0, **changes: Any) -> Cell:
    """So many free H100s; ``busy`` are the ends of what is booked."""
    values: dict[str, Any] = {
        "device_class": DeviceClass.GPU,
        "model": "H100",
        "memory_mib": 81_559,
        "free": tuple(f"GPU-{next(_numbers):06}" for _ in range(free)),
        "busy_until": tuple(sorted(busy)),
        "unhealthy": unhealthy,
        **changes,
    }
    return Cell(**values)


def node(*cells: Cell, name: str = "", **changes: Any) -> Node:
    """A ready node that enforces limits and counts no host resources."""
    name = name or f"node-{next(_numbers)}"
    values: dict[str, Any] = {
        "system_labels": {"bc.dev/cap.devices.limits": "true"},
        **changes,
    }
    return Node(id=f"id-{name}", name=name, cells=cells, **values)


def gpus(*free: int, **changes: Any) -> Snapshot:
    """Nodes with so many free GPUs each."""
    return Snapshot(
        tuple(node(cell(count), name=f"n{i}", **changes) for i, count in enumerate(free))
    )


def line(count: int = 1, *, most: int | None = None, **changes: Any) -> Line:
    """So many whole GPUs on one node."""
    values: dict[str, Any] = {"device_class": DeviceClass.GPU, **changes}
    return Line(minimum=count, maximum=count if most is None else most, **values)


def demand(*lines: Line, gang: Gang | None = None, **changes: Any) -> Demand:
    """These lines, without alternatives."""
    return Demand(lines=tuple((one,) for one in lines), gang=gang, **changes)


def resources(vcpu: int) -> Mapping[str, int]:
    """An amount of CPUs."""
    return {"vcpu": vcpu}


# --- strategies ----------------------------------------------------------------------------------

MODELS = ("H100", "A100")
PROFILE = "1g.10gb"
RACK = "topology.bc.dev/rack"
KINDS = (
    (DeviceClass.GPU, ""),
    (DeviceClass.GPU, ""),
    (DeviceClass.GPU, ""),
    (DeviceClass.MIG, PROFILE),
    (DeviceClass.SLOT, ""),
)
# As real hosts are wired: no links, all on a switch over two NUMA nodes, bridged pairs.
WIRINGS = ((None, None), (0, 0), (0, 1), (1, 0), (1, 1))

cells = st.builds(
    lambda kind, free, busy, model, wiring: cell(
        free,
        busy=[1] * busy,
        model=model,
        device_class=kind[0],
        profile=kind[1],
        numa_node=wiring[0],
        nvlink_group=wiring[1] if kind[0] is DeviceClass.GPU else None,
    ),
    st.sampled_from(KINDS),
    st.integers(0, 3),
    st.integers(0, 2),
    st.sampled_from(MODELS),
    st.sampled_from(WIRINGS),
)
TAINTS = ((), (), (), (Taint("team", "vision"),), (Taint("old", "", "PreferNoSchedule"),))
LABELS = ({}, {RACK: "a"}, {RACK: "a", "zone": "x"}, {RACK: "b", "zone": "x"})
LIMITS = {"bc.dev/cap.devices.limits": "true"}


@st.composite
def _nodes(draw: st.DrawFn) -> Node:
    """A node of a few atoms, mostly one that takes work."""
    taken = draw(st.sampled_from([None, None, 0, 5, 100]))
    return node(
        *draw(st.lists(cells, max_size=3)),
        cordoned=draw(st.sampled_from([False] * 7 + [True])),
        state=draw(st.sampled_from(["ready"] * 7 + ["unreachable"])),
        connected=draw(st.booleans()),
        worked_on_until=draw(st.sampled_from([None] * 7 + [5])),
        taints=draw(st.sampled_from(TAINTS)),
        labels=draw(st.sampled_from(LABELS)),
        system_labels=draw(st.sampled_from([LIMITS] * 5 + [{}])),
        resources={} if taken is None else {"vcpu": taken},
    )


nodes = _nodes()
snapshots = st.lists(nodes, max_size=4).map(lambda some: Snapshot(tuple(some)))
TERMS = (
    (),
    (),
    (),
    *(((Term("model", "=", (model,)),)) for model in MODELS),
    (Term("model", "!=", ("H100",)),),
    (Term("memoryGiB", ">=", (80,)),),
    (Term("zone", "=", ("x",)),),
    (Term(RACK, "in", ("a", "c")),),
)
lines = st.builds(
    lambda kind, least, more, topology, terms: line(
        least,
        most=least + more,
        device_class=kind[0],
        profile=kind[1],
        topology=topology,
        selector=terms,
    ),
    st.sampled_from(KINDS),
    st.integers(1, 3),
    st.sampled_from([0, 0, 0, 2]),
    st.sampled_from(list(Topology)),
    st.sampled_from(TERMS),
)
gangs = st.sampled_from([None, None, None, None, Gang(1), Gang(2), Gang(2, GangTopology.SAME_RACK)])
TOLERATIONS = ((), (), (Toleration("team"),), (Toleration("team", "audio"),))


@st.composite
def _demands(draw: st.DrawFn) -> Demand:
    """One to three lines, each with one or two alternatives."""
    alternatives = st.lists(lines, min_size=1, max_size=2).map(tuple)
    vcpu = draw(st.sampled_from([None, None, 4, 8]))
    return Demand(
        lines=tuple(draw(st.lists(alternatives, min_size=1, max_size=3))),
        gang=draw(gangs),
        tolerations=draw(st.sampled_from(TOLERATIONS)),
        resources={} if vcpu is None else {"vcpu": vcpu},
        resources_asked=vcpu is not None and draw(st.booleans()),
    )


demands = _demands()
