"""`better-compute tokens list | create | revoke`"""

import itertools

import click

from bettercompute.cli import asking, completing, readers, times
from bettercompute.cli import session as sessions
from bettercompute.cli.groups import Collection
from bettercompute.cli.output import Cell, Shown, Table
from bettercompute.cli.session import Session
from bettercompute.cli.views import Reader
from bettercompute.wire.iam import Token

LISTED_MAX = 1_000


@click.group(cls=Collection)
def tokens() -> None:
    """API tokens, each for one tenant and in your name.

    \b
    better-compute tokens create ci --for 90d
    better-compute tokens revoke tok_…
    """


@tokens.command("list")
@sessions.command
def list_(session: Session) -> None:
    """List your tokens, newest first; an admin's list is all of the tenant's."""
    with session.client() as client:
        found = list(itertools.islice(client.tokens.list(), LISTED_MAX))
    session.out.show(_table(found, readers.here()))


@tokens.command()
@click.argument("name")
@click.option("--for", "length", type=asking.Length(), help="How long it works: 90d.")
@sessions.command
def create(session: Session, *, name: str, length: int | None) -> None:
    """Make a token and print it, this once. Whoever has it acts as you, for this tenant."""
    expires_at = None if length is None else times.to_ms(times.now()) + length
    with session.client() as client:
        made = client.tokens.create(name=name, expires_at=expires_at)
    session.out.show(Shown(document=made, ids=[made.id], human=[made.token]))
    if made.expires_at is None:
        session.out.note("It works until it is revoked; --for 90d makes one that expires.")
    session.out.note(f"End it: better-compute tokens revoke {made.id}")


@tokens.command()
@click.argument("token_id", metavar="ID", shell_complete=completing.tokens)
@sessions.command
def revoke(session: Session, *, token_id: str) -> None:
    """End a token now: whoever has it is not let in any more."""
    with session.client() as client:
        found = client.tokens.revoke(token_id)
    session.out.show(Shown(document=found, ids=[found.id], human=[f"{found.id}  revoked"]))


def _table(found: list[Token], reader: Reader) -> Shown:
    rows = [
        (
            each.id,
            each.name,
            each.username,
            _state(each, reader),
            reader.moment(each.expires_at) or "never",
            reader.moment(each.last_used_at) or "never",
        )
        for each in found
    ]
    columns = ("ID", "NAME", "WHOSE", "STATE", "EXPIRES", "LAST USED")
    return Shown(
        document={"items": found},
        ids=[each.id for each in found],
        human=[Table(columns, rows, "No tokens.")],
    )


def _state(token: Token, reader: Reader) -> Cell:
    if token.revoked_at is not None:
        return Cell("revoked", "red")
    if token.expires_at is not None and token.expires_at <= times.to_ms(reader.now):
        return Cell("expired", "yellow")
    return Cell("works", "green")
