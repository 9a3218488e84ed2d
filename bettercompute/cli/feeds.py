"""`better-compute feeds list | create | revoke`: reservations in a calendar program."""

import itertools

import click

from bettercompute.cli import completing, readers
from bettercompute.cli import session as sessions
from bettercompute.cli.groups import Collection
from bettercompute.cli.output import Shown, Table
from bettercompute.cli.session import Session
from bettercompute.cli.views import Reader
from bettercompute.wire.feeds import Feed

LISTED_MAX = 1_000


@click.group(cls=Collection)
def feeds() -> None:
    """Addresses that a calendar program reads by itself.

    \b
    better-compute feeds create             # my reservations and those shared with me
    better-compute feeds create --pool main # a pool's bookings
    """


@feeds.command("list")
@sessions.command
def list_(session: Session) -> None:
    """List your calendar feeds, newest first; an admin's list is all of the tenant's."""
    with session.client() as client:
        found = list(itertools.islice(client.feeds.list(), LISTED_MAX))
        session.out.show(_table(found, readers.with_pools(session, client)))


@feeds.command()
@click.option(
    "--pool",
    metavar="POOL",
    shell_complete=completing.pools,
    help="Of this pool's bookings, by name or id.",
)
@sessions.command
def create(session: Session, *, pool: str | None) -> None:
    """Make a feed and print its address, this once. Whoever has it can read the feed."""
    with session.client() as client:
        pool_id = None if pool is None else client.pools.find(pool).id
        made = client.feeds.create(pool_id=pool_id)
        session.out.show(Shown(document=made, ids=[made.id], human=[made.url]))
        session.out.note(f"End it again: better-compute feeds revoke {made.id}")


@feeds.command()
@click.argument("feed_id", metavar="ID", shell_complete=completing.feeds)
@sessions.command
def revoke(session: Session, *, feed_id: str) -> None:
    """End a feed now: nothing is found at its address any more."""
    with session.client() as client:
        found = client.feeds.revoke(feed_id)
        session.out.show(Shown(document=found, ids=[found.id], human=[f"{found.id}  revoked"]))


def _table(found: list[Feed], reader: Reader) -> Shown:
    rows = [
        (
            each.id,
            "reservations" if each.pool_id is None else reader.pool(each.pool_id),
            each.username,
            reader.moment(each.last_read_at) or "never",
            reader.moment(each.revoked_at),
        )
        for each in found
    ]
    table = Table(("ID", "OF", "WHOSE", "LAST READ", "REVOKED"), rows, "No calendar feeds.")
    return Shown(document={"items": found}, ids=[each.id for each in found], human=[table])
