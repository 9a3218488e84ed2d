"""`better-compute pools list | show | timeline`: what there is, and how it fills."""

import click

from bettercompute.cli import asking, completing, pool_views, readers, times
from bettercompute.cli import session as sessions
from bettercompute.cli.groups import Collection
from bettercompute.cli.session import Session

DAY_MS = 86_400_000
DAYS_DEFAULT = 7
DAYS_MAX = 92  # as far as the server tells


@click.group(cls=Collection, one="show")
def pools() -> None:
    """Pools that you may book.

    \b
    better-compute pools                      # what is free, and your quotas
    better-compute pools main                 # one, and how what is free of it lies together
    better-compute pools timeline main        # when how much of it is free
    """


@pools.command("list")
@sessions.command
def list_(session: Session) -> None:
    """List the pools you may book, what is free, and your quotas."""
    with session.client() as client:
        found, quotas = client.pools.list(), client.quotas()
    reader = readers.here(found)
    session.out.show(pool_views.several(found, quotas, reader))


@pools.command()
@click.argument("pool", metavar="POOL", shell_complete=completing.pools)
@sessions.command
def show(session: Session, *, pool: str) -> None:
    """Show a pool, by name or id, and how much of it is free in one piece."""
    with session.client() as client:
        found = client.pools.find(pool)
        lying = client.pools.fragmentation(found.id)
    session.out.show(pool_views.one(found, lying, readers.here()))


@pools.command()
@click.argument("pool", metavar="POOL", shell_complete=completing.pools)
@click.option("--from", "since", metavar="WHEN", help="From then on; now unless said otherwise.")
@click.option(
    "--days",
    type=click.IntRange(1, DAYS_MAX),
    default=DAYS_DEFAULT,
    show_default=True,
    help="So many days.",
)
@sessions.command
def timeline(session: Session, *, pool: str, since: str | None, days: int) -> None:
    """Show when how many devices of a pool are free."""
    reader = readers.here()
    start = times.to_ms(reader.now)
    if since is not None:
        start = asking.moment(session, since, option="--from")
    with session.client() as client:
        found_pool = client.pools.find(pool)
        found = client.pools.timeline(found_pool.id, start_ms=start, end_ms=start + days * DAY_MS)
    session.out.show(pool_views.timeline(found, found_pool, reader))
