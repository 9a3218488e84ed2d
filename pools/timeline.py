"""One read of a pool over a span of time, as a batch's input (R13).

A snapshot is of one window. A batch has as many windows as demands, so it reads once what is booked
when, and sees each window from that.
"""

import json
from datetime import datetime
from itertools import groupby

from bettercompute import clock, sql
from pools import snapshot
from pools.planner import timeline as planning
from pools.planner.snapshot import Cell
from pools.planner.timeline import Amount, Span, TimedNode, Timeline

TIMELINE = sql.load(__package__, "timeline")


def read(pool_id: str, *, start: datetime, end: datetime) -> Timeline:
    """The pool from ``start`` to ``end``. Takes no locks; the commit decides."""
    rows = TIMELINE.all("read", pool_id=pool_id, start=start, end=end)
    nodes = [_node(list(cells)) for _, cells in groupby(rows, key=lambda row: row[0])]
    return planning.of(nodes, Span(clock.to_ms(start), clock.to_ms(end)))


def _node(rows: list[sql.Row]) -> TimedNode:
    *node, maintenance, amounts, claimed = rows[0][:11]
    cells = [row[11:] for row in rows if row[11] is not None]
    booked = [json.loads(cell[-2]) for cell in cells if cell[-2] is not None]
    return TimedNode(
        whole=snapshot.node(
            node,
            cells=tuple(map(_cell, cells)),
            resources={} if amounts is None else json.loads(amounts),
        ),
        booked={
            atom: tuple(map(Span, starts, ends))
            for some in booked
            for atom, (starts, ends) in some.items()
        },
        claimed=tuple(
            Amount(resource, amount, Span(start, end))
            for resource, amount, start, end in ([] if claimed is None else json.loads(claimed))
        ),
        worked_on=tuple(
            Span(start, end)
            for start, end in ([] if maintenance is None else json.loads(maintenance))
        ),
    )


def _cell(row: sql.Row) -> Cell:
    mode, profile, model, memory_mib, driver, numa, nvlink, usable, _, unhealthy = row
    return Cell(
        device_class=snapshot.CLASSES[mode],
        model=model,
        memory_mib=memory_mib,
        free=tuple(usable or ()),
        profile=profile,
        driver=driver,
        numa_node=numa,
        nvlink_group=nvlink,
        unhealthy=unhealthy,
    )
