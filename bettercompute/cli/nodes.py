"""`better-compute nodes list | get | cordon | uncordon`: for operators and owners of pools."""

import click

from bettercompute.cli import completing, listing, node_views, readers
from bettercompute.cli import session as sessions
from bettercompute.cli.groups import Collection
from bettercompute.cli.session import Session
from bettercompute.states import NodeState

POOL_ID_PREFIX = "pool_"


@click.group(cls=Collection, one="get")
def nodes() -> None:
    """Machines with devices, for operators and owners of pools.

    \b
    better-compute nodes --pool main
    better-compute nodes node_01k…
    better-compute nodes cordon node_01k… --preview
    """


@nodes.command("list")
@click.option(
    "--pool",
    metavar="POOL",
    shell_complete=completing.pools,
    help="Only of this pool, by name or id.",
)
@click.option("--state", type=click.Choice([str(each) for each in NodeState]), help="Only in it.")
@listing.LIMIT
@sessions.command
def list_(session: Session, *, pool: str | None, state: str | None, limit: int) -> None:
    """List the nodes of your pools, by id; an operator's list is all."""
    with session.client() as client:
        # An operator sees the nodes of pools that are not open to the operator's own tenant.
        by_id = pool is None or pool.startswith(POOL_ID_PREFIX)
        pool_id = pool if by_id else client.pools.find(str(pool)).id
        every = client.nodes.list(pool_id=pool_id, state=state, page_size=listing.page_size(limit))
        found, more = listing.beginning(every, limit)
        reader = readers.with_pools(session, client)
    session.out.show(node_views.several(found, reader, more=more))
    listing.hint(session, limit, more=more)


@nodes.command()
@click.argument("node_id", metavar="ID", shell_complete=completing.nodes)
@sessions.command
def get(session: Session, *, node_id: str) -> None:
    """Show a node with its devices, host resources and conditions."""
    with session.client() as client:
        found = client.nodes.get(node_id)
        session.out.show(node_views.one(found, readers.with_pools(session, client)))


@nodes.command()
@click.argument("node_id", metavar="ID", shell_complete=completing.nodes)
@click.option("--preview", is_flag=True, help="Only say what is on it.")
@sessions.command
def cordon(session: Session, *, node_id: str, preview: bool) -> None:
    """Have a node take no new work. What is there stays until it ends."""
    with session.client() as client:
        done = client.nodes.cordon(node_id, preview=preview)
    session.out.show(node_views.operation(done, readers.here(), preview=preview))


@nodes.command()
@click.argument("node_id", metavar="ID", shell_complete=completing.nodes)
@click.option("--preview", is_flag=True, help="Only say what is on it.")
@sessions.command
def uncordon(session: Session, *, node_id: str, preview: bool) -> None:
    """Have a node take new work again."""
    with session.client() as client:
        done = client.nodes.uncordon(node_id, preview=preview)
    session.out.show(node_views.operation(done, readers.here(), preview=preview))
