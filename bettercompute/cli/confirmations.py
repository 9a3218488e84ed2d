"""`better-compute confirmations list | show | approve | deny | withdraw`: what agents ask you."""

import contextlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click
from pydantic import ValidationError

from bettercompute.cli import completing, confirmation_views, listing, readers
from bettercompute.cli import session as sessions
from bettercompute.cli.confirmation_views import About
from bettercompute.cli.groups import Collection
from bettercompute.cli.output import Format
from bettercompute.cli.session import Session
from bettercompute.cli.views import Reader
from bettercompute.client.failures import ClientError
from bettercompute.states import ConfirmationState as S
from bettercompute.wire.capacity import QuotaAfter
from bettercompute.wire.confirmations import Confirmation
from bettercompute.wire.reservations import Reservation, ReservationRequest

if TYPE_CHECKING:
    from bettercompute.client.blocking import Client

RESERVATION = "rsv_"
#: Of how many of a list their reservation is read, to say what it is.
NAMED_MAX = 20

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
        reader, about = _known(session, client, found, most=NAMED_MAX)
    session.out.show(confirmation_views.several(found, about, reader, more=more))
    listing.hint(session, limit, more=more)


@confirmations.command()
@click.argument("confirmation_id", metavar="ID", shell_complete=completing.confirmations)
@sessions.command
def show(session: Session, *, confirmation_id: str) -> None:
    """Show what an agent asks for, and what was answered."""
    with session.client() as client:
        found = client.confirmations.get(confirmation_id)
        _show(session, client, found)


@confirmations.command()
@click.argument("confirmation_id", metavar="ID", shell_complete=completing.confirmations)
@sessions.command
def approve(session: Session, *, confirmation_id: str) -> None:
    """Let the agent do it, once: it is done when the agent sends its call again."""
    with session.client() as client:
        found = client.confirmations.approve(confirmation_id)
        _show(session, client, found)


@confirmations.command()
@click.argument("confirmation_id", metavar="ID", shell_complete=completing.confirmations)
@_REASON
@sessions.command
def deny(session: Session, *, confirmation_id: str, reason: str) -> None:
    """Refuse it, and tell the agent why."""
    with session.client() as client:
        found = client.confirmations.deny(confirmation_id, reason=reason)
        _show(session, client, found)


@confirmations.command()
@click.argument("confirmation_id", metavar="ID", shell_complete=completing.confirmations)
@_REASON
@sessions.command
def withdraw(session: Session, *, confirmation_id: str, reason: str) -> None:
    """Take back an approval that the agent has not used: it is denied from then on."""
    with session.client() as client:
        found = client.confirmations.withdraw(confirmation_id, reason=reason)
        _show(session, client, found)


def _show(session: Session, client: "Client", found: Confirmation) -> None:
    reader, about = _known(session, client, [found], most=1)
    if found.state is S.OPEN and "request" in found.asked and session.out.format is Format.TABLE:
        about = replace(about, quotas=_quotas(client, found))
    session.out.show(confirmation_views.one(found, about, reader))
    if found.state in _NEXT:
        session.out.note(_NEXT[found.state].format(found.id))


def _known(
    session: Session, client: "Client", found: Iterable[Confirmation], *, most: int
) -> tuple[Reader, About]:
    """What who reads calls things, and what these are about; ids and "it" do where no one reads."""
    reader = readers.with_pools(session, client)
    if session.out.format is not Format.TABLE:
        return reader, About()
    asked = [each for each in found if each.resource_id.startswith(RESERVATION)]
    known: dict[str, Reservation] = {}
    for resource_id in list(dict.fromkeys(each.resource_id for each in asked))[:most]:
        with contextlib.suppress(ClientError):
            known[resource_id] = client.reservations.get(resource_id)
    if any(each.asked.get("users") for each in asked):
        reader = readers.with_people(client, reader)
    return reader, About(known)


def _quotas(client: "Client", found: Confirmation) -> Sequence[QuotaAfter]:
    """What the tenant would hold once it is done; nothing where that cannot be said."""
    request = {**found.asked["request"], "tenantId": found.tenant_id}
    try:
        asked = ReservationRequest.model_validate_json(json.dumps(request))
        return client.capacity.preview(asked).quota_after
    except (ClientError, ValidationError):
        return ()
