"""`better-compute users add | remove`: who may use a reservation."""

import click

from bettercompute.cli import completing, readers, views
from bettercompute.cli import session as sessions
from bettercompute.cli.session import Session


@click.group()
def users() -> None:
    """Let members of your tenant use a reservation, or no more.

    \b
    better-compute users add rsv_… bob carol
    better-compute users remove rsv_… bob
    """


@users.command()
@click.argument("reservation_id", metavar="ID", shell_complete=completing.live_reservations)
@click.argument("names", metavar="NAME…", nargs=-1, required=True)
@sessions.command
def add(session: Session, *, reservation_id: str, names: tuple[str, ...]) -> None:
    """Let these members use it, by name or id: they can read it and how to use its devices."""
    _change(session, reservation_id, add=names)


@users.command()
@click.argument("reservation_id", metavar="ID", shell_complete=completing.live_reservations)
@click.argument("names", metavar="NAME…", nargs=-1, required=True)
@sessions.command
def remove(session: Session, *, reservation_id: str, names: tuple[str, ...]) -> None:
    """Share it with these no more, by name or id."""
    _change(session, reservation_id, remove=names)


def _change(
    session: Session,
    reservation_id: str,
    *,
    add: tuple[str, ...] = (),
    remove: tuple[str, ...] = (),
) -> None:
    with session.client() as client:
        found = client.reservations.change_users(
            reservation_id, add=client.account_ids(add), remove=client.account_ids(remove)
        )
        session.out.show(views.reservation(found, readers.of_one(session, client, found)))
