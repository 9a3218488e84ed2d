"""Who reads the answers: somebody at this machine, now."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from bettercompute.cli import times
from bettercompute.cli.output import Format
from bettercompute.cli.session import Session
from bettercompute.cli.views import Reader
from bettercompute.client.failures import ClientError
from bettercompute.wire.pools import Pool
from bettercompute.wire.reservations import Reservation

if TYPE_CHECKING:
    from bettercompute.client.blocking import Client


def here(pools: Iterable[Pool] = ()) -> Reader:
    """In this machine's zone, with what is known of pools where that matters."""
    known = {pool.id: pool for pool in pools}
    return Reader(
        times.now(),
        times.local_zone(),
        {pool_id: pool.name for pool_id, pool in known.items()},
        devices={pool_id: pool.devices for pool_id, pool in known.items()},
    )


def with_pools(session: Session, client: "Client") -> Reader:
    """With what is known of all pools; ids do where those cannot be read, or no person reads."""
    if session.out.format is not Format.TABLE:
        return here()
    try:
        return here(client.pools.list())
    except ClientError:
        return here()


def of_one(session: Session, client: "Client", found: Reservation) -> Reader:
    """The same for one reservation, with the names of those who may use it."""
    reader = with_pools(session, client)
    if not found.users or session.out.format is not Format.TABLE:
        return reader
    return with_people(client, reader)


def with_people(client: "Client", reader: Reader) -> Reader:
    """The same with the names of the tenant's members, where they can be read."""
    try:
        names = {member.account_id: member.username for member in client.members()}
    except ClientError:
        return reader
    return replace(reader, people=names)
