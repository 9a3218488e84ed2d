"""The draft row: a request written down before anything is decided (R1, R6-R9).

Its id is derived from tenant, identity and key, so a retry reaches the same row, whatever happened
in between.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import transaction

from bettercompute import clock, errors, ids, sql
from bettercompute.iam.callers import Caller
from bettercompute.states import ReservationState
from bettercompute.wire import endings
from pools.requests import NormalisedRequest
from reservations import moments
from reservations.models import Reservation

DRAFTS = sql.load(__package__, "drafts")


@dataclass(frozen=True, slots=True)
class Draft:
    """What a key has reached: a fresh draft, or what was there before."""

    id: str
    fresh: bool
    state: ReservationState
    request_hash: str
    host_share: Mapping[str, int]
    refusal: str  #: why it was denied, if it was
    denied_in: str = ""  #: the confirmation in which its owner did


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose reservation it will be."""

    tenant_id: str
    account_id: str
    agent: str = ""  #: who asks for it for them


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Of which series it is one, and when that has it begin."""

    series_id: str
    start_ms: int
    confirmation_id: str = ""  #: what its owner was asked of all of them


@dataclass(frozen=True, slots=True)
class NewDraft:
    """Everything that is written for a request."""

    request: NormalisedRequest
    idempotency_key: str
    host_share: Mapping[str, int]
    gpu_milli: int
    attributes: Mapping[str, Any]


def record(caller: Caller, new: NewDraft) -> Draft:
    """Transaction 1 of R10: write the draft, or find what the key reached before.

    Raises:
        errors.Conflict: the key was used for a different request; ``details.reservationId`` is it.
    """
    draft_id = ids.reservation(caller.tenant_id, caller.account_id, new.idempotency_key)
    with transaction.atomic(durable=True):
        owner = Owner(caller.tenant_id, caller.account_id, caller.agent)
        fresh = _write(draft_id, owner, new)
    draft = (
        Draft(
            id=draft_id,
            fresh=True,
            state=ReservationState.DRAFT,
            request_hash=new.request.hash,
            host_share=new.host_share,
            refusal="",
        )
        if fresh
        else find(draft_id)
    )
    assert draft is not None
    if draft.request_hash != new.request.hash:
        raise errors.Conflict(
            "This idempotency key was used for a different request.", reservationId=draft_id
        )
    return draft


def record_occurrence(owner: Owner, occurrence: Occurrence, new: NewDraft) -> bool:
    """Write the draft of an occurrence in the caller's transaction; False where it has a row."""
    draft_id = ids.occurrence(occurrence.series_id, occurrence.start_ms)
    return _write(draft_id, owner, new, occurrence)


def _write(
    draft_id: str, owner: Owner, new: NewDraft, occurrence: Occurrence | None = None
) -> bool:
    row = DRAFTS.one("record", **_columns(draft_id, owner, new, occurrence))
    assert row is not None
    return bool(row[0])


def find(draft_id: str) -> Draft | None:
    """What a key reached before, if anything."""
    row = DRAFTS.one("find", id=draft_id)
    if row is None:
        return None
    state, request_hash, host_share, refusal, reason, confirmation_id = row
    return Draft(
        id=draft_id,
        fresh=False,
        state=ReservationState(state),
        request_hash=request_hash,
        host_share=json.loads(host_share),
        refusal=refusal or "",
        denied_in=_denied_in(reason, confirmation_id),
    )


def _denied_in(reason: str, confirmation_id: str) -> str:
    return confirmation_id if reason in endings.BY_OWNER else ""


def written_at_ms(draft_id: str) -> int | None:
    """When the key was first used, in epoch milliseconds; None where it never was."""
    row = DRAFTS.one("written_at", id=draft_id)
    return None if row is None else clock.to_ms(row[0])


def request_of(draft_id: str) -> dict[str, Any] | None:
    """What the key was first used to ask for, as stored; None where it never was."""
    row = DRAFTS.one("request_of", id=draft_id)
    return None if row is None else json.loads(row[0])


def refusal(reservation: Reservation) -> errors.AccessDenied:
    """``refused`` by a row that is denied."""
    denied_in = _denied_in(reservation.reason, reservation.confirmation_id)
    return refused(reservation.id, reservation.decision["message"], denied_in=denied_in)


def refused(draft_id: str, why: str, *, denied_in: str = "") -> errors.AccessDenied:
    """What a key is answered that was refused before: it stays refused (R8)."""
    asked = {"confirmationId": denied_in} if denied_in else {}
    return errors.AccessDenied(
        f"This idempotency key was refused before: {why}", reservationId=draft_id, **asked
    )


def abandoned(*, limit: int, age: timedelta = moments.DRAFT_LIFETIME) -> list[str]:
    """Drafts that nobody came back to (R9)."""
    return [draft_id for (draft_id,) in DRAFTS.all("abandoned", age=age, limit=limit)]


def _columns(
    draft_id: str, owner: Owner, new: NewDraft, occurrence: Occurrence | None
) -> dict[str, Any]:
    request = new.request
    return {
        "id": draft_id,
        "tenant_id": owner.tenant_id,
        "pool_id": request.pool_id,
        "owner_id": owner.account_id,
        "agent": owner.agent,
        "idempotency_key": new.idempotency_key,
        "request": json.dumps(request.document),
        "request_hash": request.hash,
        "host_share": json.dumps(dict(new.host_share)),
        "duration_ms": request.duration_ms,
        "requested_start": None if request.start_ms is None else clock.from_ms(request.start_ms),
        "lease_seconds": request.lease_seconds,
        "gpu_milli": new.gpu_milli,
        "spot": request.spot,
        "priority": request.priority,
        "labels": json.dumps(dict(request.labels)),
        "users": list(request.users),
        "attributes": json.dumps(dict(new.attributes)),
        "confirmation_id": "" if occurrence is None else occurrence.confirmation_id,
        "series_id": None if occurrence is None else occurrence.series_id,
        "occurrence_at": None if occurrence is None else clock.from_ms(occurrence.start_ms),
    }
