"""`better-compute maintenance add | list | get | cancel`: for operators and owners of pools."""

from typing import TYPE_CHECKING

import click

from bettercompute.cli import asking, completing, maintenance_views, readers
from bettercompute.cli import session as sessions
from bettercompute.cli.groups import Collection
from bettercompute.cli.session import Session

if TYPE_CHECKING:
    from bettercompute.client.blocking import Client


@click.group(cls=Collection, one="get")
def maintenance() -> None:
    """Planned work on nodes and pools, which new bookings keep clear of."""


@maintenance.command()
@click.option(
    "--pool",
    metavar="POOL",
    shell_complete=completing.pools,
    help="All of this pool, by name or id.",
)
@click.option("--node", "node_id", metavar="ID", shell_complete=completing.nodes, help="This node.")
@click.option("--start", required=True, metavar="WHEN", help='"Mon 09:00", "in 2h" or ISO 8601.')
@click.option("--for", "length", required=True, type=asking.Length(), help="How long: 4h, 2 days.")
@click.option("--reason", required=True, help="What for; whoever may book there reads it.")
@click.option("--preview", is_flag=True, help="Only say whom it would meet.")
@sessions.command
def add(
    session: Session,
    /,
    *,
    pool: str | None,
    node_id: str | None,
    start: str,
    length: int,
    reason: str,
    preview: bool,
) -> None:
    """Announce maintenance, and say whom it meets. What is booked already stays.

    \b
    better-compute maintenance add --node node_01k… --start "Mon 09:00" --for 4h --reason "new PSU"
    better-compute maintenance add --pool main --start "in 2d" --for 1h --reason network --preview
    """
    if (pool is None) == (node_id is None):
        raise click.UsageError("Give --pool or --node.")
    start_ms = asking.moment(session, start, option="--start")
    with session.client() as client:
        done = client.maintenance.announce(
            pool_id=_pool_id(client, pool),
            node_id=node_id,
            start=start_ms,
            duration=length,
            reason=reason,
            preview=preview,
        )
    session.out.show(maintenance_views.operation(done, readers.here()))


@maintenance.command("list")
@click.option(
    "--pool",
    metavar="POOL",
    shell_complete=completing.pools,
    help="Of this pool and its nodes, by name or id.",
)
@click.option(
    "--node",
    "node_id",
    metavar="ID",
    shell_complete=completing.nodes,
    help="Of this node, its pool's included.",
)
@sessions.command
def list_(session: Session, /, *, pool: str | None, node_id: str | None) -> None:
    """List what is planned or under way, of all pools you may book unless one is named."""
    if pool is not None and node_id is not None:
        raise click.UsageError("Give --pool or --node.")
    with session.client() as client:
        pools = client.pools.list()
        if node_id is not None:
            found = client.maintenance.of_node(node_id)
        else:
            named = _pool_id(client, pool)
            asked = [each.id for each in pools] if named is None else [named]
            found = [each for one in asked for each in client.maintenance.of_pool(one)]
    found.sort(key=lambda each: (each.start, each.id))
    session.out.show(maintenance_views.listing(found, readers.here(pools)))


@maintenance.command()
@click.argument("maintenance_id", metavar="ID")
@sessions.command
def get(session: Session, /, *, maintenance_id: str) -> None:
    """Show one, and whom it meets."""
    with session.client() as client:
        found = client.maintenance.get(maintenance_id)
        session.out.show(maintenance_views.one(found, readers.with_pools(session, client)))


@maintenance.command()
@click.argument("maintenance_id", metavar="ID")
@click.option("--preview", is_flag=True, help="Only say whom it meets.")
@sessions.command
def cancel(session: Session, /, *, maintenance_id: str, preview: bool) -> None:
    """Call maintenance off, so that its time is booked again."""
    with session.client() as client:
        done = client.maintenance.cancel(maintenance_id, preview=preview)
    session.out.show(maintenance_views.operation(done, readers.here()))


def _pool_id(client: "Client", pool: str | None) -> str | None:
    return None if pool is None else client.pools.find(pool).id
