"""`better-compute usage | budgets`: what reservations had, and what may still be reserved."""

import click

from bettercompute.cli import completing, offering, readers, times
from bettercompute.cli import session as sessions
from bettercompute.cli.output import Cell, Shown, Table
from bettercompute.cli.session import Session
from bettercompute.cli.views import Reader
from bettercompute.wire.usage import GROUPINGS, Budget, Grouping, Usage, UsageRow

DAYS_DEFAULT = 30
DAYS_MAX = 400
DAY_MS = 86_400_000


class Groupings(click.ParamType[tuple[Grouping, ...]]):
    """``day,pool``: what to group by."""

    name = "groups"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Grouping, ...]:
        """The groups named, in the order in which they are shown."""
        named = {part.strip() for part in str(value).split(",")}
        if unknown := sorted(named - set(GROUPINGS)):
            self.fail(f"{unknown[0]!r} is none of {', '.join(GROUPINGS)}", param, ctx)
        return tuple(group for group in GROUPINGS if group in named)


@click.command()
@click.option(
    "--days",
    type=click.IntRange(1, DAYS_MAX),
    default=DAYS_DEFAULT,
    show_default=True,
    help="So many days up to now.",
)
@click.option(
    "--by",
    type=Groupings(),
    default="pool",
    shell_complete=offering.several("day", "pool", "owner"),
    help="Any of day,pool,owner.",
)
@click.option(
    "--pool", metavar="POOL", shell_complete=completing.pools, help="Only this pool, by name or id."
)
@sessions.command
def usage(session: Session, *, days: int, by: tuple[Grouping, ...], pool: str | None) -> None:
    """How many GPU-hours your tenant's reservations had, and how many of them idle.

    Idle is what was reserved and not bound to a node. What is still to come is not in it.
    """
    reader = readers.here()
    end_ms = times.to_ms(reader.now)
    with session.client() as client:
        found = client.usage(
            start_ms=end_ms - days * DAY_MS,
            end_ms=end_ms,
            by=by,
            pool_id=None if pool is None else client.pools.find(pool).id,
            time_zone=reader.zone.key,
        )
        named = readers.with_pools(session, client) if "pool" in by else reader
    session.out.show(_usage(found, by, named))


@click.command()
@sessions.command
def budgets(session: Session) -> None:
    """What is left of your tenant's budgets, this month or in their window."""
    with session.client() as client:
        found = client.budgets()
        reader = readers.with_pools(session, client)
    session.out.show(_budgets(found, reader))


def _usage(found: Usage, by: tuple[Grouping, ...], reader: Reader) -> Shown:
    rows = [
        (
            *(_group(row, group, reader) for group in by),
            f"{row.gpu_hours:,.1f}",
            f"{row.idle_gpu_hours:,.1f}",
        )
        for row in found.items
    ]
    columns = (*(group.upper() for group in by), "GPU-HOURS", "OF THEM IDLE")
    table = Table(columns, rows, "Nothing was used in this time.")
    return Shown(document=found, ids=[], human=[table])


def _group(row: UsageRow, group: Grouping, reader: Reader) -> str:
    match group:
        case "day":
            return row.day or ""
        case "pool":
            return reader.pool(row.pool_id or "")
        case "owner":
            return row.owner or row.owner_identity_id or ""


def _budgets(found: list[Budget], reader: Reader) -> Shown:
    rows = [
        (
            each.name,
            "all pools" if each.pool_id is None else f"pool {reader.pool(each.pool_id)}",
            reader.window(each.during.start, each.during.end),
            f"{each.used:,.1f}",
            f"{each.reserved:,.1f}",
            Cell(f"{each.left:,.1f}", "green" if each.left > 0 else "red"),
            f"{each.gpu_hours:,.1f}",
        )
        for each in found
    ]
    columns = ("BUDGET", "OF", "WHEN", "USED", "RESERVED", "LEFT", "GPU-HOURS")
    table = Table(columns, rows, "No budget limits what your tenant reserves.")
    return Shown(document={"items": found}, ids=[each.id for each in found], human=[table])
