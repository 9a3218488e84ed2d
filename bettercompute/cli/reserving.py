"""Making a reservation, and waiting until it can be used, while a person watches."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from bettercompute.cli import times, waits
from bettercompute.cli.intents import Intent
from bettercompute.cli.session import Session
from bettercompute.client import failures
from bettercompute.states import ConfirmationState
from bettercompute.wire.reservations import Reservation

if TYPE_CHECKING:
    from bettercompute.client.blocking import Client

MINUTE_MS = 60_000


def create(
    session: Session,
    client: "Client",
    request: Mapping[str, Any],
    intent: Intent,
    *,
    wait: float | None,
) -> Reservation:
    """Create it and, if asked, wait until it can be used: all within the same deadline.

    What an agent's person has to confirm first is waited for, too, and then sent again.

    Raises:
        failures.WaitTimedOut: the deadline has passed; the reservation goes on.
        failures.ConfirmationRequired: nobody has confirmed it until then.
    """
    fields: Any = dict(request)
    if not wait:
        return _created(session, client, intent, fields)
    deadline = client.api.monotonic() + wait
    with session.out.progress(f"Waiting up to {wait:g} s") as say:
        try:
            made = _created(session, client, intent, {**fields, "wait_seconds": wait})
        except failures.ConfirmationRequired as asked:
            say(f"waits for {asked.confirmation_id} to be approved")
            left = _decided(client, intent, asked, deadline)
            made = _created(session, client, intent, {**fields, "wait_seconds": left})
        if waits.is_hopeless(made):
            session.out.note(_in_vain(made))
        try:
            is_ahead = fields.get("start") is not None
            return _wait(client, made, deadline, lambda now: say(_told(now)), is_ahead=is_ahead)
        except failures.WaitTimedOut as late:  # of its two parts, the last
            raise failures.WaitTimedOut(
                late.goal, seconds=wait, reservation=late.reservation
            ) from None
        except KeyboardInterrupt:
            session.out.note(
                f"It goes on without this command: better-compute get {made.id}\n"
                f"Give it back: better-compute release {made.id}"
            )
            raise


def _created(session: Session, client: "Client", intent: Intent, fields: Any) -> Reservation:
    try:
        made = client.reservations.create(idempotency_key=intent.key, **fields)
    except KeyboardInterrupt:
        session.out.note(
            "Whether it is reserved is not known. Run the same again to go on with it, or say "
            f"--key {intent.key}"
        )
        raise
    intent.settle()
    return made


def _decided(
    client: "Client", intent: Intent, asked: failures.ConfirmationRequired, deadline: float
) -> float:
    """Wait until the person has answered; how many seconds are left then.

    Sent again with the same key it is the same request, and answered with what came of it.
    """
    intent.wait_for(asked)
    left = max(0.0, deadline - client.api.monotonic())
    found = client.confirmations.wait(asked.confirmation_id, seconds=left)
    if found.state is ConfirmationState.OPEN:
        raise asked
    return max(0.0, deadline - client.api.monotonic())


def _wait(
    client: "Client",
    made: Reservation,
    deadline: float,
    seen: Callable[[Reservation], None],
    *,
    is_ahead: bool,
) -> Reservation:
    def left() -> float:
        return max(0.0, deadline - client.api.monotonic())

    placed = client.reservations.wait_until_placed(made, seconds=left(), seen=seen)
    if is_ahead or _is_ahead(placed):
        return placed  # it is bound at its start
    return client.reservations.wait_until_active(placed, seconds=left(), seen=seen)


def _is_ahead(found: Reservation) -> bool:
    """Whether it starts later although nobody typed so: an offer says when."""
    return found.during is not None and found.during.start > found.created_at + MINUTE_MS


def _in_vain(found: Reservation) -> str:
    """Said before anybody waits for what cannot come; nodes may be added, so waiting goes on."""
    return (
        f"This pool can never serve it, even with nothing booked: {waits.lack(found)}.\n"
        "It is waited for all the same, as nodes may be added. Ctrl-C leaves it; to withdraw it:"
        f" better-compute cancel {found.id}"
    )


def _told(found: Reservation) -> str:
    return waits.standing(found, now=times.now(), zone=times.local_zone())
