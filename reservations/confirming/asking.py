"""Asking a person before an agent acts for them, and using what they approved (R36).

A use case has the policies decide, then comes here with what it is about to do. Where nobody has to
be asked this costs no statement. An approval is good for exactly what was asked, by the token that
asked, once and until its deadline: ``use`` spends it in the transaction of the change, so two
retries at once cannot both act on it. The policies decide anew on each retry, so what they weigh
and what moves by itself (a lead time, what one holds) is no part of the question.
"""

from dataclasses import dataclass

from django.db import transaction

from bettercompute import acts, errors
from bettercompute.iam.callers import Caller
from bettercompute.iam.decisions import Decision
from bettercompute.states import ConfirmationState
from reservations.confirming import rows, words
from reservations.confirming.rows import Intent
from reservations.lifecycle import Effects
from reservations.models import Confirmation

ATTEMPTS_MAX = 3


class ApprovalGone(errors.Conflict):
    """What lets you do this is used, over, or not asked for: send the call again to ask anew."""


@dataclass(frozen=True, slots=True)
class Approval:
    """What a person approved, as it was read; ``use`` looks again."""

    confirmation_id: str


#: Nothing would have come of it, so nobody was asked. Had it changed meanwhile, ``use`` refuses.
UNASKED = Approval("")


def approval(caller: Caller, decision: Decision, intent: Intent) -> Approval | None:
    """What lets an agent do this now; None where nobody has to be asked.

    Raises:
        errors.AccessDenied: a policy denies it, or the person did.
        errors.ConfirmationRequired: the person has yet to decide; they are asked now.
    """
    if decision.effect != "confirm":
        decision.require()
        return None
    for _ in range(ATTEMPTS_MAX):
        known = _ask_once(caller, intent)
        if known is not None:
            return _approved(known)
    raise ApprovalGone


def _ask_once(caller: Caller, intent: Intent) -> Confirmation | None:
    """The standing answer or question, written down where there is none; None where it moved."""
    with transaction.atomic(durable=True):
        known = rows.latest(caller, intent)
        effects = Effects()
        if known is not None and not rows.is_overdue(known):
            if known.state in {*rows.LIVE, ConfirmationState.DENIED}:
                return known
        elif known is not None and known.state in rows.LIVE:
            expire(known, effects)
        asked = rows.ask(caller, intent, effects)
        if asked is None:
            return None
        with rows.asking(asked):
            effects.flush()
    return asked


def _approved(known: Confirmation) -> Approval:
    if known.state == ConfirmationState.DENIED:
        raise _denied(known)
    if known.state == ConfirmationState.OPEN:
        raise rows.required(known)
    return Approval(known.id)


def _denied(known: Confirmation) -> errors.AccessDenied:
    return errors.AccessDenied(
        words.denial(known), confirmationId=known.id, reason=known.reason or None
    )


def use(granted: Approval | None) -> None:
    """Spend an approval in the transaction of what it allows, behind all locks but the effects'.

    Raises:
        errors.AccessDenied: the person has withdrawn it meanwhile.
        ApprovalGone: another call was faster, its time ran out, or nobody was asked; nothing may
            be done on it.
    """
    if granted is None:
        return
    confirmation = rows.locked(granted.confirmation_id)
    if confirmation is not None and confirmation.state == ConfirmationState.DENIED:
        raise _denied(confirmation)
    if (
        confirmation is None
        or confirmation.state != ConfirmationState.APPROVED
        or rows.is_overdue(confirmation)
    ):
        raise ApprovalGone
    rows.move(confirmation, ConfirmationState.USED)
    # The account and token of the entry are the agent's; this says who let it.
    acts.mention(confirmationId=confirmation.id, approvedBy=confirmation.decided_by_id)


def expire(confirmation: Confirmation, effects: Effects) -> None:
    """Its time is over; its row is locked."""
    rows.move(confirmation, ConfirmationState.EXPIRED)
    rows.tell(effects, confirmation, "expired")
