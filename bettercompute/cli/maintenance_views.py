"""Planned maintenance as people read it at a terminal. Pure."""

from collections.abc import Sequence

from bettercompute.cli.output import Cell, Shown, Table, facts
from bettercompute.cli.views import Reader
from bettercompute.wire.maintenance import (
    Affected,
    Maintenance,
    MaintenanceDetails,
    MaintenanceOperation,
)

_COLOURS = {"under-way": "yellow", "planned": "cyan"}


def listing(found: Sequence[Maintenance], reader: Reader) -> Shown:
    """What is planned, by start."""
    rows = [
        (
            each.id,
            Cell(each.state, _COLOURS.get(each.state)),
            reader.pool(each.pool_id),
            each.node or "all of it",
            reader.window(each.start, each.end),
            each.reason,
        )
        for each in found
    ]
    columns = ("ID", "STATE", "POOL", "NODE", "WHEN", "REASON")
    return Shown(
        document={"items": list(found)},
        ids=[each.id for each in found],
        human=[Table(columns, rows, "No maintenance is planned.")],
    )


def operation(done: MaintenanceOperation, reader: Reader) -> Shown:
    """What was announced or called off, and whom it meets."""
    window = done.maintenance
    human: list[str | Table] = []
    if window is None:
        human.append("Nothing is announced. It would meet:")
    else:
        what = f"{window.id}  {window.state}" if done.applied else f"{window.id}: nothing changed"
        when = reader.window_in_full(window.start, window.end)
        human += [what, f"{window.node or 'All of the pool'}, {when}: {window.reason}", "It meets:"]
    human += _met(done.affected, done.affected_total, reader)
    return Shown(document=done, ids=[] if window is None else [window.id], human=human)


def one(found: MaintenanceDetails, reader: Reader) -> Shown:
    """One with all that is known of it, and whom it meets."""
    human: list[str | Table] = [f"{found.id}  {found.state}"]
    human += facts(
        [
            ("Pool", reader.pool(found.pool_id)),
            ("Node", found.node or "all of the pool"),
            (
                "When",
                reader.window_in_full(found.start, found.end),
            ),
            ("Reason", found.reason),
            ("Announced by", found.announced_by or ""),
        ]
    )
    human += ["It meets:", *_met(found.affected, found.affected_total, reader)]
    return Shown(document=found, ids=[found.id], human=human)


def _met(affected: Sequence[Affected], total: int, reader: Reader) -> list[str | Table]:
    rows = [_affected(each, reader) for each in affected]
    columns = ("RESERVATION", "TENANT", "OWNER", "STATE", "WHEN", "NODES", "DEVICES")
    more = [f"and {total - len(affected)} more"] if total > len(affected) else []
    return [Table(columns, rows, "nobody"), *more]


def _affected(each: Affected, reader: Reader) -> tuple[str | Cell, ...]:
    return (
        each.reservation_id,
        each.tenant,
        each.owner,
        each.state,
        reader.window(each.during.start, each.during.end),
        ", ".join(each.nodes[:4]) + (" …" if len(each.nodes) > 4 else ""),
        str(each.devices),
    )
