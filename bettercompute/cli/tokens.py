"""`better-compute tokens list | create | revoke`"""

import itertools

import click

from bettercompute.cli import asking, completing, offering, readers, times
from bettercompute.cli import session as sessions
from bettercompute.cli.groups import Collection
from bettercompute.cli.output import Cell, Shown, Table
from bettercompute.cli.session import Session
from bettercompute.cli.views import Reader
from bettercompute.wire.iam import Token

LISTED_MAX = 1_000
RESERVATIONS = "compute:reservations:"
#: What an agent can be made to ask for; the server has the last word.
SHORT = ("create", "extend", "release", "share")


@click.group(cls=Collection)
def tokens() -> None:
    """API tokens, each for one tenant and in your name.

    \b
    better-compute tokens create ci --for 90d
    better-compute tokens create night --agent trainer --confirm create,extend
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
@click.option("--agent", metavar="NAME", help="For a program of this name that acts for you.")
@click.option(
    "--confirm",
    metavar="ACTION,…",
    shell_complete=offering.several(*SHORT, "all"),
    help=f"What it asks you for first: {', '.join(SHORT)}, or all.",
)
@sessions.command
def create(
    session: Session, *, name: str, length: int | None, agent: str | None, confirm: str | None
) -> None:
    """Make a token and print it, this once. Whoever has it acts as you, for this tenant."""
    if confirm is not None and agent is None:
        raise click.UsageError("--confirm is for an agent: say its name with --agent.")
    expires_at = None if length is None else times.to_ms(times.now()) + length
    with session.client() as client:
        made = client.tokens.create(
            name=name, expires_at=expires_at, agent=agent, confirm=_actions(confirm)
        )
    session.out.show(Shown(document=made, ids=[made.id], human=[made.token]))
    if made.expires_at is None:
        session.out.note("It works until it is revoked; --for 90d makes one that expires.")
    if made.delegation is not None and made.delegation.confirm:
        session.out.note("What it asks you: better-compute confirmations")
    session.out.note(f"End it: better-compute tokens revoke {made.id}")


@tokens.command()
@click.argument("token_id", metavar="ID", shell_complete=completing.tokens)
@sessions.command
def revoke(session: Session, *, token_id: str) -> None:
    """End a token now: whoever has it is not let in any more."""
    with session.client() as client:
        found = client.tokens.revoke(token_id)
    session.out.show(Shown(document=found, ids=[found.id], human=[f"{found.id}  revoked"]))


def _actions(confirm: str | None) -> list[str]:
    """``create,extend`` as the names of actions; what has a colon is one already."""
    if confirm is None:
        return []
    named = (
        list(SHORT) if confirm.strip() == "all" else [each.strip() for each in confirm.split(",")]
    )
    return [each if ":" in each else f"{RESERVATIONS}{each}" for each in named if each]


def _table(found: list[Token], reader: Reader) -> Shown:
    rows = [
        (
            each.id,
            each.name,
            each.username,
            _agent(each),
            _state(each, reader),
            reader.moment(each.expires_at) or "never",
            reader.moment(each.last_used_at) or "never",
        )
        for each in found
    ]
    columns = ("ID", "NAME", "WHOSE", "AGENT", "STATE", "EXPIRES", "LAST USED")
    return Shown(
        document={"items": found},
        ids=[each.id for each in found],
        human=[Table(columns, rows, "No tokens.")],
    )


def _agent(token: Token) -> str:
    """Who uses it, and what that one asks for first."""
    if token.delegation is None:
        return ""
    held = ", ".join(each.removeprefix(RESERVATIONS) for each in token.delegation.confirm)
    return f"{token.delegation.agent} (confirm {held})" if held else token.delegation.agent


def _state(token: Token, reader: Reader) -> Cell:
    if token.revoked_at is not None:
        return Cell("revoked", "red")
    if token.expires_at is not None and token.expires_at <= times.to_ms(reader.now):
        return Cell("expired", "yellow")
    return Cell("works", "green")
