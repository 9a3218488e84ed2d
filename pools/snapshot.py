"""One read of a pool for a window, as the planner's input (R15).

A plain request (one kind of device, not a gang) is first shown only the nodes that it would most
likely take, which keeps a create on a pool of a thousand nodes as quick as on one of fifty. What
the planner cannot fit there it is asked again on the whole pool: so ``find`` is the way to a plan,
and what it refuses was looked for everywhere.
"""

import json
import random
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from itertools import groupby

from bettercompute import sql
from bettercompute.wire.reservations import DeviceClass
from pools.planner import plan as planner
from pools.planner.request import Demand, Line
from pools.planner.snapshot import Cell, Node, Snapshot, Taint

SNAPSHOT = sql.load(__package__, "snapshot")

LIKELIEST_NODES_MAX = 48

CLASSES = {"whole": DeviceClass.GPU, "mig": DeviceClass.MIG, "slots": DeviceClass.SLOT}
_MODES = {device_class: mode for mode, device_class in CLASSES.items()}


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
    for whole in (False, True):
        snapshot = read(pool_id, start=start, end=end, request=demand, whole=whole)
        found = planner.plan(demand, snapshot, exclude_nodes=exclude_nodes, rng=rng)
        if isinstance(found, planner.Plan) or snapshot.whole:
            return found
    raise AssertionError("the second read is whole")


def read(
    pool_id: str, *, start: datetime, end: datetime, request: Demand, whole: bool = False
) -> Snapshot:
    """The pool for ``[start, end)``: narrowed to the likeliest nodes where that makes sense."""
    line = None if whole else _plain(request)
    sums = [(options[0].minimum, options[0].maximum) for options in request.lines]
    most = sum(maximum for _, maximum in sums)
    rows = SNAPSHOT.all(
        "read",
        pool_id=pool_id,
        start=start,
        end=end,
        narrow=line is not None,
        tainted=bool(request.tolerations),
        mode=None if line is None else mode_of(line),
        profile=None if line is None else line.profile,
        models=None if line is None else models_of(line),
        count=most if request.may_spread else sum(minimum for minimum, _ in sums),
        most=most,
        limit=LIKELIEST_NODES_MAX,
        resources=list(request.resources),
        amounts=list(request.resources.values()),
    )
    nodes = tuple(_node(list(cells)) for _, cells in groupby(rows, key=lambda row: row[0]))
    return Snapshot(nodes, whole=line is None)


def _plain(demand: Demand) -> Line | None:
    """A line that says which devices the whole demand is about; None where they are several."""
    lines = [options[0] for options in demand.lines]
    kinds = {(line.device_class, line.profile) for line in lines}
    if demand.gang is not None or demand.combinations > 1 or len(kinds) > 1:
        return None
    return lines[0]


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
    node_id, name, state, cordoned, labels, system_labels, taints, connected, free = rows[0][:9]
    return Node(
        id=node_id,
        name=name,
        cells=tuple(_cell(row[9:]) for row in rows if row[9] is not None),
        state=state,
        cordoned=cordoned,
        connected=connected,
        labels=_mapping(labels),
        system_labels=_mapping(system_labels),
        taints=_taints(taints),
        resources={} if free is None else json.loads(free),
    )


def _cell(row: sql.Row) -> Cell:
    mode, profile, model, memory_mib, driver, numa, nvlink, free, busy_until, unhealthy = row
    return Cell(
        device_class=CLASSES[mode],
        model=model,
        memory_mib=memory_mib,
        free=tuple(free or ()),
        profile=profile,
        driver=driver,
        numa_node=numa,
        nvlink_group=nvlink,
        busy_until=tuple(busy_until or ()),
        unhealthy=unhealthy,
    )


# Hosts of a pool mostly carry the same labels: each text is parsed once. Pure, so never stale.
@lru_cache(maxsize=4_096)
def _mapping(text: str) -> Mapping[str, str]:
    return {str(key): str(value) for key, value in json.loads(text).items()}


@lru_cache(maxsize=4_096)
def _taints(text: str) -> tuple[Taint, ...]:
    return tuple(
        Taint(item["key"], item.get("value") or "", item.get("effect") or "NoSchedule")
        for item in json.loads(text)
    )
