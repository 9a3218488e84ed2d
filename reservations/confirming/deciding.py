"""A person answers what their agent asks (R36).

Nobody else does: no admin, no operator, and no agent. The answer does not act: what is approved is
done when the agent sends its call again.
"""

from collections.abc import Callable
from typing import Any

from django.db import transaction

from bettercompute import acts, errors
from bettercompute.acts import Thing
from bettercompute.iam import access
from bettercompute.iam.callers import Caller
from bettercompute.states import ConfirmationState, ReservationState
from bettercompute.web import etags
from reservations import queries
from reservations.confirming import creating, lookups, rows
from reservations.lifecycle import Effects
from reservations.models import Confirmation, Reservation

_APPROVED = (ConfirmationState.APPROVED, ConfirmationState.USED)
#: What to do with one that is in another state than an answer starts from.
_INSTEAD = {
    ConfirmationState.OPEN: "It is open; deny it.",
    ConfirmationState.APPROVED: "It is approved; withdraw that.",
    ConfirmationState.USED: "It is used: the agent has done it, and that stays as it is.",
}

Settle = Callable[[Confirmation, Reservation | None, Effects], None]


def approve(
    caller: Caller, *, confirmation_id: str, if_match: frozenset[int] | None = None
) -> Confirmation:
    """Let the agent do this, once; again changes nothing.

    Raises:
        errors.NotFound: there is none that the caller may see.
        errors.AccessDenied: it is another's to decide, or an agent asks.
        errors.PreconditionFailed: ``if_match`` has not the current version (C2).
        errors.InvalidState: it was denied, its time is over, or its agent's token has ended.
    """
    known = _look(caller, confirmation_id, "approve")

    def settle(
        confirmation: Confirmation, reservation: Reservation | None, effects: Effects
    ) -> None:
        if rows.is_abandoned(known, confirmation.read_at):
            raise errors.InvalidState(
                "Its agent’s token has ended, so nothing can be done on it; deny it, or let it"
                " lapse.",
                state=confirmation.state,
            )
        rows.move(confirmation, ConfirmationState.APPROVED, _by(caller, confirmation))
        if reservation is not None:
            creating.approved(reservation, confirmation)
        rows.tell(effects, confirmation, "approved")

    return _decide(known, settle, before=ConfirmationState.OPEN, same=_APPROVED, if_match=if_match)


def deny(
    caller: Caller,
    *,
    confirmation_id: str,
    reason: str = "",
    if_match: frozenset[int] | None = None,
) -> Confirmation:
    """Refuse it, and tell the agent why; again changes nothing.

    Raises:
        errors.InvalidState: it was approved, or its time is over.
        errors.NotFound, errors.AccessDenied, errors.PreconditionFailed: as for ``approve``.
    """
    known = _look(caller, confirmation_id, "deny")
    return _refuse(caller, known, reason, before=ConfirmationState.OPEN, if_match=if_match)


def withdraw(
    caller: Caller,
    *,
    confirmation_id: str,
    reason: str = "",
    if_match: frozenset[int] | None = None,
) -> Confirmation:
    """Take an approval back that the agent has not used: it is denied; again changes nothing.

    Raises:
        errors.InvalidState: it is not approved, the agent has used it, or its time is over.
        errors.NotFound, errors.AccessDenied, errors.PreconditionFailed: as for ``approve``.
    """
    known = _look(caller, confirmation_id, "withdraw")
    return _refuse(caller, known, reason, before=ConfirmationState.APPROVED, if_match=if_match)


def _refuse(
    caller: Caller,
    known: Confirmation,
    reason: str,
    *,
    before: ConfirmationState,
    if_match: frozenset[int] | None,
) -> Confirmation:
    def settle(
        confirmation: Confirmation, reservation: Reservation | None, effects: Effects
    ) -> None:
        said = {
            "reason": " ".join(reason.split()),
            "withdrawn": before == ConfirmationState.APPROVED,
            **_by(caller, confirmation),
        }
        rows.move(confirmation, ConfirmationState.DENIED, said)
        if reservation is not None:
            creating.deny(reservation, confirmation, effects)
        rows.tell(effects, confirmation, "denied")

    same = (ConfirmationState.DENIED,)
    return _decide(known, settle, before=before, same=same, if_match=if_match)


def _look(caller: Caller, confirmation_id: str, verb: str) -> Confirmation:
    acts.attempt(f"compute:confirmations:{verb}", Thing("confirmation", confirmation_id))
    known = lookups.get(caller, confirmation_id)
    access.require_person(caller)
    if known.account_id != caller.account_id:
        raise errors.AccessDenied(
            "Only the person whose agent asks decides on this.", needs=access.PERSON
        )
    return known


def _decide(
    known: Confirmation,
    settle: Settle,
    *,
    before: ConfirmationState,
    same: tuple[ConfirmationState, ...],
    if_match: frozenset[int] | None,
) -> Confirmation:
    with transaction.atomic(durable=True):
        # The reservation that waits for it is locked first (C19).
        waits = known.action == rows.CREATE
        reservation = queries.locked(known.resource_id) if waits else None
        confirmation = rows.locked(known.id)
        assert confirmation is not None, "only what is over is ever forgotten"
        etags.require(confirmation.version, if_match)
        if confirmation.state in same:
            return confirmation
        _require(confirmation, before)
        if reservation is not None:
            assert reservation.state == ReservationState.AWAITING_CONFIRMATION
        effects = Effects()
        settle(confirmation, reservation, effects)
        effects.flush()
    return confirmation


def _require(confirmation: Confirmation, before: ConfirmationState) -> None:
    state = ConfirmationState(confirmation.state)
    if state != before:
        why = _INSTEAD.get(state, f"It is {state}; that stays as it is.")
        raise errors.InvalidState(why, state=str(state))
    if rows.is_overdue(confirmation):
        raise errors.InvalidState("Its time is over; the agent has to ask again.", state="expired")


def _by(caller: Caller, confirmation: Confirmation) -> dict[str, Any]:
    return {"decided_by_id": caller.account_id, "decided_at": confirmation.read_at}
