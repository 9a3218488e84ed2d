"""A create that waits for its person: the draft awaits the confirmation, and holds nothing (R36).

The reservation and its confirmation move in one transaction wherever one of them ends, the
reservation locked first: one awaits the other exactly as long as that is live.
"""

from django.db import transaction

from bettercompute import clock
from bettercompute.iam.callers import Caller
from bettercompute.states import ConfirmationState, ReservationState
from bettercompute.wire import endings
from reservations import conditions, drafts, lifecycle, queries
from reservations.conditions import ConditionType
from reservations.confirming import asking, rows, words
from reservations.confirming.asking import Approval
from reservations.confirming.rows import Intent
from reservations.lifecycle import Effects
from reservations.models import Confirmation, Reservation

AWAITING_PERSON = "AwaitingPerson"
AWAITING_AGENT = "AwaitingAgent"


def approval(caller: Caller, draft_id: str) -> Approval | None:
    """What lets the agent have this draft placed; None where the reservation waits no longer.

    Raises:
        errors.ConfirmationRequired: the person has yet to decide.
        errors.AccessDenied: it was denied, or an approval withdrawn, a moment ago.
    """
    with transaction.atomic(durable=True):
        reservation = queries.locked(draft_id)
        assert reservation is not None
        effects = Effects()
        if reservation.state == ReservationState.DRAFT:
            known = _ask(caller, reservation, effects)
            with rows.asking(known):
                effects.flush()
        elif reservation.state == ReservationState.AWAITING_CONFIRMATION:
            known = confirmation_of(reservation)
            if known.token_id != caller.token_id:
                return None  # another agent of this person, with this key: it is theirs
            if rows.is_overdue(known):
                expire(reservation, known, effects)
                effects.flush()
                return None
        elif reservation.state == ReservationState.DENIED:
            raise drafts.refusal(reservation)
        else:
            return None
    if known.state == ConfirmationState.OPEN:
        raise rows.required(known)
    return Approval(known.id)


def _ask(caller: Caller, reservation: Reservation, effects: Effects) -> Confirmation:
    asked = {"verb": "create", "request": reservation.request}
    made = rows.ask(caller, Intent(rows.CREATE, reservation.id, asked), effects)
    assert made is not None, "the draft is locked, and asks for the first time"
    lifecycle.move(
        reservation,
        ReservationState.AWAITING_CONFIRMATION,
        {
            "agent": made.agent,
            "confirmation_id": made.id,
            "confirm_until": made.expires_at,
            "conditions": conditions.put(
                reservation.conditions,
                ConditionType.CONFIRMATION_REQUIRED,
                reason=AWAITING_PERSON,
                message=f"{made.agent} asks for it; it waits until {caller.username} approves it.",
                now_ms=clock.to_ms(reservation.read_at),
            ),
        },
    )
    effects.event(reservation, "awaiting-confirmation")
    return made


def confirmation_of(reservation: Reservation) -> Confirmation:
    """What a locked reservation awaits, locked, too."""
    known = rows.locked(reservation.confirmation_id)
    assert known is not None, "R36: a reservation awaits a confirmation that is there"
    return known


def approved(reservation: Reservation, confirmation: Confirmation) -> None:
    """Say on the reservation that its agent may come back now; both rows are locked."""
    noted = conditions.put(
        reservation.conditions,
        ConditionType.CONFIRMATION_REQUIRED,
        reason=AWAITING_AGENT,
        message=f"It is approved; it is placed when {confirmation.agent} sends its request again.",
        now_ms=clock.to_ms(reservation.read_at),
    )
    lifecycle.amend(reservation, {"conditions": noted})


def deny(reservation: Reservation, confirmation: Confirmation, effects: Effects) -> None:
    """End the reservation whose confirmation was denied; both rows are locked."""
    said = {"effect": "deny", "policies": [], "message": words.denial(confirmation)}
    reason = endings.WITHDRAWN if confirmation.withdrawn else endings.DENIED_BY_OWNER
    _end(reservation, ReservationState.DENIED, effects, decision=said, reason=reason)


def expire(reservation: Reservation, confirmation: Confirmation, effects: Effects) -> None:
    """End both: nobody answered, or the agent did not come back; both rows are locked."""
    asking.expire(confirmation, effects)
    _end(reservation, ReservationState.EXPIRED, effects, reason="expired")


def refuse(reservation: Reservation, decision: dict[str, object], effects: Effects) -> None:
    """End both: the policies deny it by now, approved or not; the reservation is locked."""
    confirmation = confirmation_of(reservation)
    rows.move(confirmation, ConfirmationState.DENIED, {"reason": "a policy denies it by now"})
    rows.tell(effects, confirmation, "denied")
    _end(reservation, ReservationState.DENIED, effects, decision=decision, reason=endings.DENIED)


def _end(
    reservation: Reservation, after: ReservationState, effects: Effects, **values: object
) -> None:
    ended = {"ended_at": reservation.read_at, "conditions": [], **values}
    lifecycle.move(reservation, after, ended)
    effects.event(reservation, str(after))
