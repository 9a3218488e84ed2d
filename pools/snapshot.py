"""One read of a pool for a window, as the planner's input (R15).

A request is first shown only the nodes that it would most likely take, out of so many of the pool
that the size of the pool does not matter: ``near`` a random point of it, then the first that do
``around`` it. What the planner cannot fit there it is asked again on the whole pool: so ``find`` is
the way to a plan, and what it refuses was looked for everywhere.
"""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from functools import lru_cache
from itertools import groupby
from types import MappingProxyType
from typing import Any

from bettercompute import sql
from bettercompute.wire.reservations import DeviceClass
from pools.planner import filters
from pools.planner import plan as planner
from pools.planner.request import GANG_LABELS, Demand, Line
from pools.planner.snapshot import SYSTEM_LABELS, Cell, Node, Snapshot, Taint

SNAPSHOT = sql.load(__package__, "snapshot")

LIKELIEST_NODES_MAX = 48
# How many nodes are looked at before the best of them is taken. More pack a little better, at a
# price that every create pays: docs/benchmarks.md has both.
SAMPLED_NODES_MAX = 128
SAMPLED_PLACES_MAX = 8  # racks or switches, for a gang that stands together
EVERY_NODE = 1_000_000

CLASSES = {"whole": DeviceClass.GPU, "mig": DeviceClass.MIG, "slots": DeviceClass.SLOT}
_MODES = {device_class: mode for mode, device_class in CLASSES.items()}


class Reach(Enum):
    """How far a read goes."""

    NEAR = "near"  #: the best of a sample
    AROUND = "around"  #: the first of the whole pool that have enough devices free
    WHOLE = "whole"  #: everything, whether it has or not


def find(
    pool_id: str,
    demand: Demand,
    *,
    start: datetime,
    end: datetime,
    rng: random.Random,
    exclude_nodes: frozenset[str] = frozenset(),
) -> planner.Plan | planner.NoFit:
    """The best plan for ``[start, end)``, or why there is none in the whole pool."""
    for reach in (Reach.NEAR, Reach.AROUND):
        turn = _turn(rng)
        part = read(pool_id, start=start, end=end, request=demand, reach=reach, turn=turn)
        found = planner.attempt(demand, part, exclude_nodes=exclude_nodes, rng=rng)
        if found is not None:
            return found
        if part.around:
            break
    whole = read(pool_id, start=start, end=end, request=demand)
    return planner.plan(demand, whole, exclude_nodes=exclude_nodes, rng=rng)


def search(
    pool_id: str, demand: Demand, *, start: datetime, end: datetime, rng: random.Random
) -> planner.Plan | None:
    """The same for who needs no reasons: mostly known before the whole pool is read."""
    for reach in Reach:
        turn = _turn(rng)
        seen = read(pool_id, start=start, end=end, request=demand, reach=reach, turn=turn)
        found = planner.attempt(demand, seen, rng=rng)
        if found is not None:
            return found
        if seen.around and _is_plain(demand):
            return None
    return None


def _turn(rng: random.Random) -> int:
    """Somewhere on the ring."""
    return rng.getrandbits(64) - 2**63


def _is_plain(demand: Demand) -> bool:
    """Whether a node that serves it always has what ``_narrowing`` asks for."""
    return demand.combinations == 1 and not demand.may_spread


def read(
    pool_id: str,
    *,
    start: datetime,
    end: datetime,
    request: Demand,
    reach: Reach = Reach.WHOLE,
    turn: int = 0,
) -> Snapshot:
    """The pool for ``[start, end)``, as far as ``reach``; ``turn`` is where a sample begins."""
    values = {
        "pool_id": pool_id,
        "start": start,
        "end": end,
        "resources": list(request.resources),
        "amounts": list(request.resources.values()),
    }
    if reach is Reach.WHOLE:
        rows = SNAPSHOT.all("whole", **values)
    else:
        rows = SNAPSHOT.all("likeliest", **values, **_narrowing(request, reach), turn=turn)
    nodes = tuple(
        _node([row[1:] for row in cells])
        for node_id, cells in groupby(rows, key=lambda row: row[1])
        if node_id is not None
    )
    return Snapshot(nodes, whole=reach is Reach.WHOLE, around=all(row[0] for row in rows))


def _narrowing(demand: Demand, reach: Reach) -> dict[str, Any]:
    """What the likeliest nodes have, and how many of them are read.

    Of the first alternatives, the kind of device of which most are asked: a node without so many is
    none, whatever else is asked. Devices of topology ``any`` are looked for on one node.
    """
    kinds: dict[_Kind, list[Line]] = {}
    for options in demand.lines:
        kinds.setdefault(_Kind.of(options[0]), []).append(options[0])
    kind, lines = max(kinds.items(), key=lambda item: sum(line.minimum for line in item[1]))
    most = sum(line.maximum for line in lines)
    return {
        "tainted": bool(demand.tolerations),
        **_labels(demand),
        "mode": kind.mode,
        "profile": kind.profile,
        "models": None if kind.models is None else list(kind.models),
        "count": most if demand.may_spread else sum(line.minimum for line in lines),
        "most": most,
        "asked": demand.resources_asked,
        "carries": _carries(demand) if reach is Reach.AROUND else [],
        **_extent(demand, reach),
    }


def _carries(demand: Demand) -> list[int]:
    """The least that any node which serves it books of each host resource; empty: it depends.

    For a sample that is not worth its price: most nodes have enough.
    """
    if not _is_plain(demand):
        return []
    least = filters.least_worth([options[0] for options in demand.lines], demand)
    return list(filters.amounts_at(least, demand).values())


def _labels(demand: Demand) -> dict[str, Any]:
    """The labels that a node must have whatever else: those asked for by value, and ours."""
    lines = [] if demand.may_spread else [options[0] for options in demand.lines]
    equal = {t.key: str(t.values[0]) for t in filters.label_terms(lines) if t.op == "="}
    ours = {key: value for key, value in equal.items() if key.startswith(SYSTEM_LABELS)}
    return {
        "labels": json.dumps({key: value for key, value in equal.items() if key not in ours}),
        "system_labels": json.dumps(ours),
        "labelled": list(demand.labels),
    }


def _extent(demand: Demand, reach: Reach) -> dict[str, Any]:
    """How many nodes are looked at, after how many that do the search ends, how many are read."""
    nodes = 0 if demand.gang is None else demand.gang.nodes
    place = None if demand.gang is None else GANG_LABELS.get(demand.gang.topology)
    near = max(SAMPLED_NODES_MAX, 4 * nodes) if place is None else SAMPLED_PLACES_MAX
    limit = max(LIKELIEST_NODES_MAX, 2 * nodes) if place is None else EVERY_NODE
    return {
        "place": place,  # a rack is judged by all of its nodes that do
        "sample": near if reach is Reach.NEAR else EVERY_NODE,
        "enough": EVERY_NODE if reach is Reach.NEAR else limit,
        "limit": limit,
    }


@dataclass(frozen=True, slots=True)
class _Kind:
    """Devices that are counted together."""

    mode: str
    profile: str
    models: tuple[str, ...] | None

    @classmethod
    def of(cls, line: Line) -> "_Kind":
        models = models_of(line)
        return cls(mode_of(line), line.profile, None if models is None else tuple(models))


def mode_of(line: Line) -> str:
    """The mode in which a GPU gives such devices."""
    return _MODES[line.device_class]


def models_of(line: Line) -> list[str] | None:
    """The models that a line names, in lower case; None where any will do."""
    for term in line.selector:
        if term.key == "model" and term.op in {"=", "in"}:
            return [str(value).lower() for value in term.values]
    return None


def _node(rows: list[sql.Row]) -> Node:
    worked_on_until, free, capacity = rows[0][8:11]
    return node(
        rows[0][:8],
        cells=tuple(_cell(row[11:]) for row in rows if row[11] is not None),
        worked_on_until=worked_on_until,
        resources={} if free is None else json.loads(free),
        capacity={} if capacity is None else _amounts(capacity),
    )


def node(
    row: Sequence[Any],
    *,
    cells: tuple[Cell, ...],
    resources: Mapping[str, int],
    capacity: Mapping[str, int] = MappingProxyType({}),
    worked_on_until: int | None = None,
) -> Node:
    """A host from its own columns: id, name, state, cordoned, both labels, taints, connected."""
    node_id, name, state, cordoned, labels, system_labels, taints, connected = row
    return Node(
        id=node_id,
        name=name,
        cells=cells,
        state=state,
        cordoned=cordoned,
        connected=connected,
        labels=_mapping(labels),
        system_labels=_mapping(system_labels),
        taints=_taints(taints),
        worked_on_until=worked_on_until,
        resources=resources,
        capacity=capacity,
    )


def cell_of(row: sql.Row) -> Cell:
    """What an atom is, as the planner knows it: mode, profile, model, memory, driver, place."""
    mode, profile, model, memory_mib, driver, numa, nvlink = row
    return Cell(
        device_class=CLASSES[mode],
        model=model,
        memory_mib=memory_mib,
        free=(),
        profile=profile,
        driver=driver,
        numa_node=numa,
        nvlink_group=nvlink,
    )


def _cell(row: sql.Row) -> Cell:
    *kind, free, busy_until, unhealthy = row
    return replace(
        cell_of(tuple(kind)),
        free=tuple(free or ()),
        busy_until=tuple(busy_until or ()),
        unhealthy=unhealthy,
    )


# Hosts of a pool mostly carry the same labels: each text is parsed once. Pure, so never stale.
@lru_cache(maxsize=4_096)
def _mapping(text: str) -> Mapping[str, str]:
    return {str(key): str(value) for key, value in json.loads(text).items()}


@lru_cache(maxsize=4_096)
def _amounts(text: str) -> Mapping[str, int]:
    return {str(name): int(amount) for name, amount in json.loads(text).items()}


@lru_cache(maxsize=4_096)
def _taints(text: str) -> tuple[Taint, ...]:
    return tuple(
        Taint(item["key"], item.get("value") or "", item.get("effect") or "NoSchedule")
        for item in json.loads(text)
    )
