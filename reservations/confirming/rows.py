"""Rows of confirmations: found, locked, moved, and told of.

Order of the locks: the reservation that waits for it, where one does, comes first (C19).
"""

import hashlib
import json
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from bettercompute import acts, clock, errors, ids, sql, states, transitions
from bettercompute.acts import Thing
from bettercompute.columns import ComputeNow
from bettercompute.iam.callers import Caller
from bettercompute.states import ConfirmationState
from bettercompute.telemetry import metrics
from outbox.events import NewEvent
from reservations.lifecycle import Effects
from reservations.models import CONFIRMATION_LIFETIME, Confirmation

CONFIRMATIONS = sql.load(__package__, "confirmations")

KIND = "confirmation"
CREATE = "compute:reservations:create"
LIVE = (ConfirmationState.OPEN, ConfirmationState.APPROVED)
#: How many questions of one token may await their answer at once.
OPEN_MAX = 20


class TooManyQuestions(errors.Conflict):
    """The person you act for has many of your questions to answer; ask anew once they have."""


@dataclass(frozen=True, slots=True)
class Intent:
    """Exactly what an agent wants to do: the same again is the same question."""

    action: str
    resource_id: str
    asked: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """SHA-256 of what is asked, in one spelling."""
        text = json.dumps(self.asked, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def ask(caller: Caller, intent: Intent, effects: Effects) -> Confirmation | None:
    """Write the question; None where the same one stands already.

    Raises:
        TooManyQuestions: as many as may be await an answer.
    """
    if CONFIRMATIONS.one("too_many", token_id=caller.token_id, most=OPEN_MAX):
        raise TooManyQuestions(most=OPEN_MAX)
    confirmation_id = ids.new("cnf")
    asked = CONFIRMATIONS.run(
        "ask",
        id=confirmation_id,
        tenant_id=caller.tenant_id,
        account_id=caller.account_id,
        token_id=caller.token_id,
        agent=caller.agent,
        action=intent.action,
        resource_id=intent.resource_id,
        asked=json.dumps(dict(intent.asked)),
        digest=intent.digest,
        lifetime=CONFIRMATION_LIFETIME,
    )
    if not asked:
        return None
    made = Confirmation.objects.get(pk=confirmation_id)
    metrics.count_on_commit(metrics.CONFIRMATIONS, state=made.state)
    effects.wake(KIND, made.id, made.expires_at)
    tell(effects, made, "requested")
    return made


def latest(caller: Caller, intent: Intent) -> Confirmation | None:
    """The last time that this token asked for exactly this, locked."""
    rows = Confirmation.objects.filter(
        token_id=caller.token_id,
        action=intent.action,
        resource_id=intent.resource_id,
        digest=intent.digest,
    )
    return _locking(rows).order_by("-asked_at", "-id").first()


def locked(confirmation_id: str) -> Confirmation | None:
    """The row, locked, with ``read_at``; None where there is none."""
    return _locking(Confirmation.objects.filter(pk=confirmation_id)).first()


def is_overdue(confirmation: Confirmation) -> bool:
    """Whether its time has run out; its row is locked."""
    return confirmation.expires_at <= confirmation.read_at


def is_abandoned(confirmation: Confirmation, now: datetime) -> bool:
    """Whether its agent's token has ended, so that nobody can act on an approval."""
    token = confirmation.token
    expired = token.expires_at is not None and token.expires_at <= now
    return expired or token.revoked_at is not None


def move(
    confirmation: Confirmation, after: ConfirmationState, values: Mapping[str, Any] | None = None
) -> None:
    """Move a locked confirmation."""
    values = dict(values or {})
    if after in states.CONFIRMATION.terminal:
        values["ended_at"] = confirmation.read_at
    confirmation.version = transitions.move(
        states.CONFIRMATION,
        row_id=confirmation.id,
        version=confirmation.version,
        before=confirmation.state,
        after=after,
        values=values,
    )
    metrics.count_on_commit(metrics.CONFIRMATIONS, state=str(after))
    confirmation.state = after
    for name, value in values.items():
        setattr(confirmation, name, value)


def tell(effects: Effects, confirmation: Confirmation, verb: str) -> None:
    """Say what became of it."""
    said = {"reason": confirmation.reason} if confirmation.reason else {}
    effects.tell(
        NewEvent(
            type=f"confirmation.{verb}",
            tenant_id=confirmation.tenant_id,
            subject=f"confirmation/{confirmation.id}",
            data={
                "state": str(confirmation.state),
                "action": confirmation.action,
                "resourceId": confirmation.resource_id,
                "accountId": confirmation.account_id,
                "agent": confirmation.agent,
                "expiresAt": clock.to_ms(confirmation.expires_at),
                **said,
            },
        )
    )


def asking(confirmation: Confirmation) -> AbstractContextManager[object]:
    """What is written inside is an act of its own: to ask is not to do what is asked for."""
    if acts.current() is None:
        return nullcontext()
    about = Thing("confirmation", confirmation.id)
    detail = {"asks": confirmation.action, "of": confirmation.resource_id}
    return acts.part("compute:confirmations:request", about, detail)


def required(confirmation: Confirmation) -> errors.ConfirmationRequired:
    """What an agent is answered until its person has decided."""
    until: datetime = confirmation.expires_at
    return errors.ConfirmationRequired(
        f"{confirmation.agent} may do this once the person it acts for has approved it; send the"
        " same call again then.",
        confirmationId=confirmation.id,
        expiresAt=clock.to_ms(until),
        resourceId=confirmation.resource_id,
    )


def _locking(rows: QuerySet[Confirmation]) -> QuerySet[Confirmation]:
    rows = rows.select_for_update(no_key=True)
    return rows.annotate(read_at=ComputeNow())  # type: ignore[no-redef]  # declared for readers
