"""`better-compute events` and `watch`: what happened, and what happens."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from bettercompute.cli import asking, completing, event_views, listing, readers
from bettercompute.cli import session as sessions
from bettercompute.cli.output import Format
from bettercompute.cli.session import Session

if TYPE_CHECKING:
    from bettercompute.client.blocking import Client
    from bettercompute.client.following import Streamed

HISTORY = 20  # of one reservation, before what is new

_TYPES = click.option(
    "--type",
    "types",
    metavar="TYPE",
    multiple=True,
    help="Only of this type, or of several: 'reservation.*'. May be given again.",
)
_PLATFORM = click.option(
    "--platform", is_flag=True, help="The events of all tenants. For operators."
)


@click.command()
@_TYPES
@click.option("--subject", metavar="SUBJECT", help="Only about this: reservation/rsv_…, node/….")
@click.option("--from", "start", metavar="WHEN", help="From then on.")
@click.option("--to", "end", metavar="WHEN", help="Before then.")
@listing.LIMIT
@_PLATFORM
@sessions.command
def events(
    session: Session,
    /,
    *,
    types: tuple[str, ...],
    subject: str | None,
    start: str | None,
    end: str | None,
    limit: int,
    platform: bool,
) -> None:
    """List what happened, newest first.

    \b
    better-compute events --type 'reservation.*' --from 2026-03-01T00:00
    better-compute events --subject reservation/rsv_01k…
    """
    start_ms = None if start is None else asking.moment(session, start, option="--from")
    end_ms = None if end is None else asking.moment(session, end, option="--to")
    with session.client() as client:
        every = client.events.list(
            types=types,
            subject=subject,
            start_ms=start_ms,
            end_ms=end_ms,
            platform=platform,
            page_size=listing.page_size(limit),
        )
        found, more = listing.beginning(every, limit)
    session.out.show(event_views.several(found, readers.here(), more=more))
    listing.hint(session, limit, more=more)


@click.command()
@click.argument(
    "reservation_id",
    metavar="[RESERVATION]",
    required=False,
    shell_complete=completing.reservations,
)
@_TYPES
@click.option("--after", metavar="POSITION", help="Go on behind this position, as watch said it.")
@click.option("--count", type=click.IntRange(1), help="End after so many events.")
@_PLATFORM
@sessions.command
def watch(
    session: Session,
    /,
    *,
    reservation_id: str | None,
    types: tuple[str, ...],
    after: str | None,
    count: int | None,
    platform: bool,
) -> None:
    """Say what happens, as it happens, until it is interrupted.

    With a RESERVATION: what has happened to it and what happens, until it is over. With --json each
    event is a line. What breaks a connection does not end this, and loses nothing.

    \b
    better-compute watch rsv_01k…
    better-compute watch --type 'node.*' --json
    """
    if platform and reservation_id is not None:
        raise click.UsageError("--platform and a reservation do not go together.")
    subject = None if reservation_id is None else f"reservation/{reservation_id}"
    with session.client() as client:
        if reservation_id is not None:
            client.reservations.get(reservation_id)  # that there is one is known, or said
        followed = _followed(client, subject, types, after, platform=platform)
        _print(session, followed, count=count, until_over=reservation_id is not None)


def _followed(
    client: "Client",
    subject: str | None,
    types: Iterable[str],
    after: str | None,
    *,
    platform: bool,
) -> "Iterator[Streamed]":
    """What comes behind ``after``; without it, of one subject what was first."""
    from bettercompute.client.following import Streamed

    if after is None and subject is not None:
        known = client.events.newest(types=types, subject=subject, limit=HISTORY)
        yield from (Streamed(known.position, event) for event in reversed(known.items))
        after = known.position
    yield from client.events.stream(after=after, types=types, subject=subject, platform=platform)


def _print(
    session: Session, followed: "Iterator[Streamed]", *, count: int | None, until_over: bool
) -> None:
    position, printed = None, 0
    try:
        for streamed in followed:
            position = streamed.position
            if streamed.event is None:
                session.out.warn(f"Events before {position} may be missing; look at the list.")
                continue
            _print_one(session, streamed)
            printed += 1
            if printed == count or (until_over and event_views.is_over(streamed.event)):
                return
    except KeyboardInterrupt:
        if position is not None:
            session.out.note(f"Go on where this was: better-compute watch --after {position}")
        raise


def _print_one(session: Session, streamed: "Streamed") -> None:
    assert streamed.event is not None
    match session.out.format:
        case Format.JSON:
            click.echo(streamed.event.model_dump_json(by_alias=True))
        case Format.ID:
            click.echo(streamed.event.id)
        case Format.TABLE:
            click.echo(event_views.line(streamed.event, readers.here()))
