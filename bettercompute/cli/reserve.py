"""`better-compute reserve | get | list | release | cancel`"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from bettercompute import states
from bettercompute.cli import (
    asking,
    completing,
    intents,
    listing,
    readers,
    reserving,
    views,
    waits,
)
from bettercompute.cli import session as sessions
from bettercompute.cli.exits import Exit
from bettercompute.cli.intents import Intent
from bettercompute.cli.session import Session
from bettercompute.states import ReservationState
from bettercompute.wire.pools import Pool
from bettercompute.wire.reservations import Reservation

if TYPE_CHECKING:
    from bettercompute.client.blocking import Client

WAIT_SECONDS = 20.0

_STATES = [str(state) for state in states.VISIBLE]


@click.command()
@asking.options
@click.option(
    "--wait",
    type=click.FloatRange(0, 86_400),
    is_flag=False,
    flag_value=WAIT_SECONDS,
    metavar="[SECONDS]",
    help=f"Wait until it can be used, {WAIT_SECONDS:g} seconds unless said otherwise.",
)
@click.option(
    "--key",
    type=asking.Key(),
    help="The idempotency key of this intent; the same key reaches the same reservation.",
)
@click.option(
    "--offer",
    "offer_id",
    metavar="ID",
    help="Take this offer of capacity --offers, instead of saying what, where and when.",
)
@sessions.command
def reserve(
    session: Session,
    /,
    *,
    wait: float | None,
    key: str | None,
    offer_id: str | None,
    **given: Any,
) -> None:
    """Reserve GPUs of a pool for a time.

    \b
    better-compute reserve --pool main --gpus 4 --for 8h --wait
    better-compute reserve --pool main --gpus 8 --for 3d --start "Mon 09:00"
    better-compute reserve --pool main --gpus 4 --for 2h --start "Mon 15:00" --repeat weekly
    better-compute reserve --pool mig --class gpu.mig --profile 1g.10gb --gpus 2 --for 2h
    better-compute reserve --offer cof_01k…
    """
    wanted = asking.wanted(session, given) if offer_id is None else _offered(offer_id, given)
    with session.client() as client:
        with intents.begin(session, client, "reserve", given, offer_id, key=key) as intent:
            request, pools = _request(client, wanted, intent)
            found = reserving.create(session, client, request, intent, wait=wait)
        reader = readers.here(pools) if pools else readers.with_pools(session, client)
        session.out.show(views.reservation(found, reader))
        _hint(session, found)
        _exit_for(found)


def _request(
    client: "Client", wanted: asking.Wanted, intent: Intent
) -> tuple[Mapping[str, Any], list[Pool]]:
    """What is sent, remembered as such, and the pool where it was read.

    It is what an earlier run sent, or else what is wanted, with the ids of the pool and the people
    that are named.
    """
    if intent.earlier is not None:
        return intent.earlier, []
    fields, pools = asking.request_fields(client, wanted), []
    if wanted.pool:
        pools = [client.pools.find(wanted.pool)]
        fields["pool_id"] = pools[0].id
    intent.remember(fields)
    return fields, pools


def _offered(offer_id: str, given: Mapping[str, Any]) -> asking.Wanted:
    """The offer says all of it; what is said beside it would only contradict.

    Raises:
        click.UsageError: something is.
    """
    context = click.get_current_context()
    for param in context.command.params:
        if (
            param.name in given
            and context.get_parameter_source(param.name) is ParameterSource.COMMANDLINE
        ):
            raise click.UsageError(f"--offer says all of it; leave out {param.opts[0]}.")
    return asking.Wanted("", {"offer_id": offer_id}, (), None)


def _hint(session: Session, found: Reservation) -> None:
    if found.series_id is not None:
        session.out.note(f"This is the first. All: better-compute series get {found.series_id}")
    match found.state:
        case ReservationState.PENDING if waits.is_hopeless(found):
            session.out.note(
                "This pool can never serve it, even with nothing booked. It waits all the same and "
                f"counts against your quota: better-compute cancel {found.id}"
            )
        case ReservationState.PENDING:
            session.out.note(f"It is placed as soon as it fits: better-compute get {found.id}")
        case ReservationState.PLACED | ReservationState.BINDING:
            session.out.note(f"See when it can be used: better-compute get {found.id}")
        case ReservationState.ACTIVE:
            session.out.note(f"Give it back: better-compute release {found.id}")


def _exit_for(found: Reservation) -> None:
    """A reservation that came to nothing is an error, even where the call was none."""
    if found.state is ReservationState.DENIED:
        raise click.exceptions.Exit(Exit.DENIED)
    if found.state in (ReservationState.FAILED, ReservationState.EXPIRED):
        raise click.exceptions.Exit(Exit.NO_CAPACITY)


@click.command()
@click.argument("reservation_id", metavar="ID", shell_complete=completing.reservations)
@sessions.command
def get(session: Session, *, reservation_id: str) -> None:
    """Show a reservation, and how to use it."""
    with session.client() as client:
        found = client.reservations.get(reservation_id)
        session.out.show(views.reservation(found, readers.of_one(session, client, found)))


@click.command("list")
@click.option("--all", "everyone", is_flag=True, help="Also those of others in the tenant.")
@click.option("--shared", is_flag=True, help="Those of others that you may use.")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(_STATES),
    help="Only in this state; may be given several times.",
)
@click.option(
    "--pool",
    metavar="POOL",
    shell_complete=completing.pools,
    help="Only of this pool, by name or id.",
)
@listing.LIMIT
@sessions.command
def list_(
    session: Session,
    *,
    everyone: bool,
    shared: bool,
    states: tuple[str, ...],
    pool: str | None,
    limit: int,
) -> None:
    """List reservations, newest first."""
    if everyone and shared:
        raise click.UsageError("Give --all or --shared, not both.")
    with session.client() as client:
        pool_id = None if pool is None else client.pools.find(pool).id
        every = client.reservations.list(
            scope="all" if everyone else "shared" if shared else "mine",
            states=states,
            pool_id=pool_id,
            page_size=listing.page_size(limit),
        )
        found, more = listing.beginning(every, limit)
        shown = views.reservations(found, readers.with_pools(session, client), more=more)
        session.out.show(shown)
        listing.hint(session, limit, more=more)


@click.command()
@click.argument("reservation_id", metavar="ID", shell_complete=completing.live_reservations)
@sessions.command
def release(session: Session, *, reservation_id: str) -> None:
    """End a reservation now and give its devices back."""
    with session.client() as client:
        found = client.reservations.release(reservation_id)
        session.out.show(views.reservation(found, readers.with_pools(session, client)))


@click.command()
@click.argument("reservation_id", metavar="ID", shell_complete=completing.live_reservations)
@sessions.command
def cancel(session: Session, *, reservation_id: str) -> None:
    """Withdraw a reservation that has not started."""
    with session.client() as client:
        found = client.reservations.cancel(reservation_id)
        session.out.show(views.reservation(found, readers.with_pools(session, client)))
