"""`better-compute capacity | pools | leases`: what there is, what would fit, who is in charge."""

from dataclasses import replace
from typing import Any

import click

from bettercompute.cli import asking, fragmentation, readers, series, views
from bettercompute.cli import session as sessions
from bettercompute.cli.exits import Exit
from bettercompute.cli.session import Session


@click.command()
@click.option("--preview", is_flag=True, required=True, help="Ask whether this would fit.")
@asking.options
@sessions.command
def capacity(session: Session, /, *, preview: bool, **given: Any) -> None:
    """Whether a reservation would fit, and if not, why. Changes nothing.

    Takes the options of reserve. Exits with 0 if it would fit, with 5 if not.
    """
    assert preview, "required"
    wanted = asking.wanted(session, given)
    with session.client() as client:
        pool = client.pools.find(wanted.pool)
        fields: Any = asking.request_fields(client, wanted)
        found = client.capacity.preview(pool_id=pool.id, **fields)
    reader = readers.here()
    shown = views.preview(found, reader)
    human = [*shown.human, *series.previewed(found.occurrences, reader)]
    session.out.show(replace(shown, human=human))
    if not found.fits:
        raise click.exceptions.Exit(Exit.NO_CAPACITY)


@click.command()
@click.argument("pool", required=False)
@sessions.command
def pools(session: Session, /, *, pool: str | None) -> None:
    """List the pools you may book, what is free, and your quotas.

    With the name or id of a POOL: how much of it is free in one piece.
    """
    with session.client() as client:
        if pool is not None:
            found_pool = client.pools.find(pool)
            lying = client.pools.fragmentation(found_pool.id)
            session.out.show(fragmentation.shown(lying))
            return
        found, quotas = client.pools.list(), client.quotas()
    reader = readers.here({pool.id: pool.name for pool in found})
    session.out.show(views.pools(found, quotas, reader))


@click.command()
@sessions.command
def leases(session: Session) -> None:
    """Who is in charge of what in the control plane, since when. For operators."""
    with session.client() as client:
        found = client.operating.leases()
    session.out.show(views.leases(found, readers.here()))
