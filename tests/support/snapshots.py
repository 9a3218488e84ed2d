"""Makers of planner input: nodes of few words, and strategies for whatever a pool may look like."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from bettercompute.wire.reservations import DeviceClass, Topology
from pools.planner.request import Demand, Gang, Line, Term
from pools.planner.snapshot import Cell, Node, Snapshot

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

cells = st.builds(
    lambda free, busy, model, numa, nvlink: cell(
        free, busy=[1] * busy, model=model, numa_node=numa, nvlink_group=nvlink
    ),
    st.integers(0, 3),
    st.integers(0, 2),
    st.sampled_from(MODELS),
    st.sampled_from([None, 0, 1]),
    st.sampled_from([None, 0, 1]),
)
nodes = st.builds(
    lambda some, cordoned, taken: node(
        *some, cordoned=cordoned, resources={} if taken is None else {"vcpu": taken}
    ),
    st.lists(cells, max_size=3),
    st.sampled_from([False, False, False, True]),
    st.sampled_from([None, None, 0, 5, 100]),
)
snapshots = st.lists(nodes, max_size=4).map(lambda some: Snapshot(tuple(some)))
lines = st.builds(
    lambda least, more, topology, model: line(
        least,
        most=least + more,
        topology=topology,
        selector=() if model is None else (Term("model", "=", (model,)),),
    ),
    st.integers(1, 4),
    st.sampled_from([0, 0, 0, 2]),
    st.sampled_from(list(Topology)),
    st.sampled_from([None, None, *MODELS]),
)
gangs = st.sampled_from([None, None, None, Gang(1), Gang(2)])
demands = st.builds(
    lambda some, gang, vcpu: demand(
        *some, gang=gang, resources={} if vcpu is None else {"vcpu": vcpu}
    ),
    st.lists(lines, min_size=1, max_size=3),
    gangs,
    st.sampled_from([None, None, 4, 8]),
)
