"""`better-compute capacity | leases`: what would fit, who is in charge."""

from dataclasses import replace
from typing import Any

import click

from bettercompute.cli import asking, offers_views, readers, series, views
from bettercompute.cli import session as sessions
from bettercompute.cli.exits import Exit
from bettercompute.cli.session import Session


@click.command()
@click.option("--preview", is_flag=True, help="Ask whether this would fit.")
@click.option("--offers", is_flag=True, help="Ask for ways to have it, each good for a minute.")
@click.option("--start-by", metavar="WHEN", help="With --offers: the latest start.")
@click.option(
    "--for-up-to", "longest", type=asking.Length(), help="With --offers: how long at the most."
)
@asking.options
@sessions.command
def capacity(
    session: Session,
    /,
    *,
    preview: bool,
    offers: bool,
    start_by: str | None,
    longest: int | None,
    **given: Any,
) -> None:
    """Whether a reservation would fit, and if not, why; or which ways there are to have it.

    Takes the options of reserve, and books nothing. Exits with 0 if it would fit, with 5 if not.

    \b
    better-compute capacity --preview --pool main --gpus 8 --for 8h
    better-compute capacity --offers --pool main --gpus 8 --for 2h --for-up-to 8h --start-by "in 3d"
    """
    if preview == offers:
        raise click.UsageError("Give --preview or --offers.")
    if preview and (start_by is not None or longest is not None):
        raise click.UsageError("--start-by and --for-up-to go with --offers.")
    wanted = asking.wanted(session, given)
    if preview:
        _preview(session, wanted)
    else:
        last = None if start_by is None else asking.moment(session, start_by, option="--start-by")
        _offers(session, wanted, last, longest)


def _preview(session: Session, wanted: asking.Wanted) -> None:
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


def _offers(session: Session, wanted: asking.Wanted, last: int | None, longest: int | None) -> None:
    ranges: dict[str, Any] = {}
    if longest is not None:
        ranges["duration"] = {"min": wanted.fields["duration"], "max": longest}
    if last is not None:
        earliest = {} if wanted.start_ms is None else {"earliest": wanted.start_ms}
        ranges["start"] = {**earliest, "latest": last}
    with session.client() as client:
        pool = client.pools.find(wanted.pool)
        fields: Any = {**asking.request_fields(client, wanted), **ranges}
        found = client.capacity.offers(pool_id=pool.id, **fields)
    session.out.show(offers_views.offers(found, readers.here()))
    if not found.offers:
        raise click.exceptions.Exit(Exit.NO_CAPACITY)
    session.out.note(
        f"Take one within a minute: better-compute reserve --offer {found.offers[0].id}"
    )


@click.command()
@sessions.command
def leases(session: Session) -> None:
    """Who is in charge of what in the control plane, since when. For operators."""
    with session.client() as client:
        found = client.operating.leases()
    session.out.show(views.leases(found, readers.here()))
