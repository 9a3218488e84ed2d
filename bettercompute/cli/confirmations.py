"""`better-compute confirmations list | show | approve | deny | withdraw`: what agents ask you."""

import click

from bettercompute.cli import completing, listing, readers
from bettercompute.cli import session as sessions
from bettercompute.cli.groups import Collection
from bettercompute.cli.output import Cell, Shown, Table, facts
from bettercompute.cli.session import Session
from bettercompute.cli.views import Reader
from bettercompute.states import ConfirmationState as S
from bettercompute.wire.confirmations import Confirmation

_COLOURS = {S.OPEN: "yellow", S.APPROVED: "cyan", S.USED: "green", S.DENIED: "red"}
_NEXT = {
    S.OPEN: "Answer it: better-compute confirmations approve {0}, or deny {0} --reason …",
    S.APPROVED: (
        "It is done when the agent sends its call again. To take that back before:"
        " better-compute confirmations withdraw {0}"
    ),
}
_REASON = click.option("--reason", default="", help="Why not; the agent is told.")


@click.group(cls=Collection, one="show")
def confirmations() -> None:
    """What agents that act for you ask you to confirm.

    \b
    better-compute confirmations                  # what awaits your answer
    better-compute confirmations approve cnf_…
    better-compute confirmations deny cnf_… --reason "tomorrow, please"
    better-compute confirmations withdraw cnf_…   # what you have approved, and was not done yet
    """


@confirmations.command("list")
@click.option("--all", "everything", is_flag=True, help="Also what was answered or is over.")
@click.option("--tenant-wide", is_flag=True, help="Of everybody in the tenant; for admins.")
@listing.LIMIT
@sessions.command
def list_(session: Session, *, everything: bool, tenant_wide: bool, limit: int) -> None:
    """List what awaits your answer, newest first."""
    with session.client() as client:
        every = client.confirmations.list(
            scope="all" if tenant_wide else "mine",
            states=() if everything else (S.OPEN,),
            page_size=listing.page_size(limit),
        )
        found, more = listing.beginning(every, limit)
    session.out.show(_table(found, readers.here(), more=more))
    listing.hint(session, limit, more=more)


@confirmations.command()
@click.argument("confirmation_id", metavar="ID", shell_complete=completing.confirmations)
@sessions.command
def show(session: Session, *, confirmation_id: str) -> None:
    """Show what an agent asks for, and what was answered."""
    with session.client() as client:
        found = client.confirmations.get(confirmation_id)
    _show(session, found)


@confirmations.command()
@click.argument("confirmation_id", metavar="ID", shell_complete=completing.confirmations)
@sessions.command
def approve(session: Session, *, confirmation_id: str) -> None:
    """Let the agent do it, once: it is done when the agent sends its call again."""
    with session.client() as client:
        found = client.confirmations.approve(confirmation_id)
    _show(session, found)


@confirmations.command()
@click.argument("confirmation_id", metavar="ID", shell_complete=completing.confirmations)
@_REASON
@sessions.command
def deny(session: Session, *, confirmation_id: str, reason: str) -> None:
    """Refuse it, and tell the agent why."""
    with session.client() as client:
        found = client.confirmations.deny(confirmation_id, reason=reason)
    _show(session, found)


@confirmations.command()
@click.argument("confirmation_id", metavar="ID", shell_complete=completing.confirmations)
@_REASON
@sessions.command
def withdraw(session: Session, *, confirmation_id: str, reason: str) -> None:
    """Take back an approval that the agent has not used: it is denied from then on."""
    with session.client() as client:
        found = client.confirmations.withdraw(confirmation_id, reason=reason)
    _show(session, found)


def _show(session: Session, found: Confirmation) -> None:
    reader = readers.here()
    lines: list[str | Table] = [f"{found.id}  {found.state}"]
    lines += facts(
        [
            ("Wants to", found.summary),
            ("Agent", f"{found.agent}, for {found.username}"),
            ("About", found.resource_id),
            ("Asked", reader.moment(found.asked_at)),
            ("Until", reader.moment(found.expires_at)),
            ("Decided", reader.moment(found.decided_at)),
            ("Because", found.reason or ""),
        ]
    )
    session.out.show(Shown(document=found, ids=[found.id], human=lines))
    if found.state in _NEXT:
        session.out.note(_NEXT[found.state].format(found.id))


def _table(found: list[Confirmation], reader: Reader, *, more: bool) -> Shown:
    rows = [
        (
            each.id,
            Cell(str(each.state), _COLOURS.get(each.state)),
            each.agent,
            each.summary,
            reader.moment(each.expires_at),
        )
        for each in found
    ]
    table = Table(("ID", "STATE", "AGENT", "WANTS TO", "UNTIL"), rows, "Nothing awaits you.")
    return Shown(
        document={"items": found, "more": more}, ids=[each.id for each in found], human=[table]
    )
