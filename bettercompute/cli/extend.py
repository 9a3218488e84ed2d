"""`better-compute extend | renew`"""

from typing import TYPE_CHECKING, Any

import click

from bettercompute.cli import asking, completing, intents, readers, times, views
from bettercompute.cli import session as sessions
from bettercompute.cli.exits import Exit
from bettercompute.cli.intents import Intent
from bettercompute.cli.output import Shown
from bettercompute.cli.session import Session
from bettercompute.wire.reservations import Extended, Extension

if TYPE_CHECKING:
    from bettercompute.client.blocking import Client

UNTIL = "--until"


@click.command()
@click.argument("reservation_id", metavar="ID", shell_complete=completing.live_reservations)
@click.option("--by", type=asking.Length(), help="So much longer than it goes now.")
@click.option(
    UNTIL, metavar="WHEN", help='Until then: "Mon 09:00", "in 12h", +12h (from now), ISO 8601.'
)
@click.option("--key", type=asking.Key(), help="The idempotency key of this intent.")
@sessions.command
def extend(
    session: Session, *, reservation_id: str, by: int | None, until: str | None, key: str | None
) -> None:
    """Make a reservation longer; without --by and --until, say until when it could go.

    \b
    better-compute extend rsv_… --by 4h
    better-compute extend rsv_… --until "tomorrow 09:00"
    """
    if by is not None and until is not None:
        raise click.UsageError("Give --by or --until, not both.")
    until_ms = None if until is None else _until_ms(session, until)
    with session.client() as client:
        if by is None and until_ms is None:
            found = client.reservations.available_until(reservation_id)
            session.out.show(_bound(found))
            return
        with intents.begin(session, client, "extend", reservation_id, by, until, key=key) as intent:
            request: Any = intent.earlier or {"by": by, "until": until_ms}
            intent.remember(request)
            made = _extend(session, client, reservation_id, request, intent)
        session.out.show(_extended(made, readers.with_pools(session, client)))
        if not made.extended and made.available_until is not None:
            raise click.exceptions.Exit(Exit.NO_CAPACITY)


def _extend(
    session: Session, client: "Client", reservation_id: str, request: Any, intent: Intent
) -> Extended:
    try:
        made = client.reservations.extend(reservation_id, idempotency_key=intent.key, **request)
    except KeyboardInterrupt:
        session.out.note(
            "Whether it is extended is not known. Run the same again to go on with it, or say "
            f"--key {intent.key}"
        )
        raise
    intent.settle()
    return made


@click.command()
@click.argument("reservation_id", metavar="ID", shell_complete=completing.live_reservations)
@sessions.command
def renew(session: Session, *, reservation_id: str) -> None:
    """Renew the lease of a reservation made with --lease, so that it does not lapse."""
    with session.client() as client:
        found = client.reservations.renew(reservation_id)
        session.out.show(views.reservation(found, readers.with_pools(session, client)))


def _until_ms(session: Session, text: str) -> int:
    words = f"in {text[1:]}" if text.startswith("+") else text
    found, note = times.start_ms(words, now=times.now(), zone=times.local_zone(), param_hint=UNTIL)
    if found is None:
        raise click.BadParameter("give a moment that is ahead", param_hint=UNTIL)
    if note:
        session.out.note(note)
    return found


def _extended(made: Extended, reader: views.Reader) -> Shown:
    shown = views.reservation(made.reservation, reader)
    if made.extended:
        told = "Extended."
    elif made.available_until is None:
        told = "Not extended: it goes on that long already."
    else:
        told = f"Not extended: it could go until {_moment(made.available_until)}, then others come."
    return Shown(document=made, ids=shown.ids, human=[told, *shown.human])


def _bound(found: Extension) -> Shown:
    if found.available_until is None:
        told = "Nothing that is booked bounds it."
    else:
        told = f"It could go until {_moment(found.available_until)}, then others come."
    return Shown(document=found, ids=[], human=[told])


def _moment(milliseconds: int) -> str:
    return times.moment(milliseconds, now=times.now(), zone=times.local_zone())
