"""Extending: every allocation's end moves later, or none (R12, R33).

Admitted like a create, against the reservation that exists: the *total* duration is what the
policies decide on, staged under a hold so that only one extension is under way (R34). Then the
exclusion constraint decides: each device gets an adjacent booking ``[old end, new end)``, and one
that a rival has books none of them. It never meets its own booking, since ranges are half-open.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.db import Error, transaction

from bettercompute import clock, durations, errors, failpoints, sql, states
from bettercompute.failpoints import Failpoint
from bettercompute.iam.callers import Caller
from bettercompute.iam.decisions import Attributes
from bettercompute.web import etags
from bettercompute.wire.reservations import ExtendRequest
from nodes import assignments
from pools import catalogue, instants
from pools.requests import YEARS_5_MS
from reservations import conditions, ending, lifecycle, moments, queries, rights, spending
from reservations.conditions import ConditionType
from reservations.confirming import asking
from reservations.confirming.asking import Approval
from reservations.confirming.rows import Intent
from reservations.extending import extend_holds, more_time
from reservations.extending.extend_holds import Hold
from reservations.lifecycle import Effects
from reservations.models import Allocation, Reservation

EXTENSION = sql.load(__package__, "extension")

ATTEMPTS_MAX = 3
MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Extended:
    """Whether the end moved; if not, until when it could (None: nothing is known to bound it)."""

    reservation: Reservation
    extended: bool
    available_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is asked: an instant, or so much more; and the key that makes it one intent."""

    until_ms: int | None
    by_ms: int | None
    key: str

    def end_after(self, end: datetime) -> int:
        """The new end, from the present one, in epoch ms: it may be beyond any datetime."""
        if self.until_ms is not None:
            return self.until_ms
        assert self.by_ms is not None
        return clock.to_ms(end) + self.by_ms

    @property
    def hash(self) -> str:
        """SHA-256 of the normalised request, without its key (R7)."""
        document = {"until": self.until_ms, "by": self.by_ms}
        return hashlib.sha256(json.dumps(document).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class _Allowed:
    """What the decision found: whether budgets bind it, and who let an agent do it."""

    budgeted: bool
    granted: Approval | None


class _EndMoved(Exception):
    """Another extension, or a new placement, moved the end between our look and our lock."""


def extend(
    caller: Caller,
    wanted: ExtendRequest,
    *,
    reservation_id: str,
    idempotency_key: str,
    if_match: frozenset[int] | None = None,
) -> Extended:
    """Move the end later, all or nothing.

    Raises:
        errors.NotFound: the caller's tenant has no such reservation.
        errors.InvalidInput: not exactly one of until and by, or neither an instant nor a duration.
        errors.InvalidState: it is not placed, binding or active, or has ended.
        errors.ConfirmationRequired: an agent's person has to approve it first.
        errors.AccessDenied: a policy, or the pool's limit, denies the total duration.
        errors.BudgetExceeded: a budget has no room for the added time.
        errors.Conflict: the key was used for another extension; another one is under way.
        errors.PreconditionFailed: ``if_match`` has not the current version (C2).
        errors.Unavailable: the policy engine cannot decide; nothing changed.
    """
    asked = _parse(wanted, idempotency_key)
    for _ in range(ATTEMPTS_MAX):
        try:
            return _try(caller, asked, reservation_id=reservation_id, if_match=if_match)
        except _EndMoved:
            pass  # look again: with the same key, what moved it may be this very extension
    raise errors.Conflict("Its end changed meanwhile.", reservationId=reservation_id)


def _try(
    caller: Caller, asked: _Wanted, *, reservation_id: str, if_match: frozenset[int] | None
) -> Extended:
    reservation = queries.access(caller, reservation_id)
    if _made_before(caller, reservation, asked):
        reservation = queries.access(caller, reservation_id)  # as it is since that was made
        rights.require_read(caller, reservation)
        return Extended(reservation, extended=True)
    etags.require(reservation.version, if_match)
    end = _end_of(reservation, clock.now())
    if asked.end_after(end) <= clock.to_ms(end):
        rights.require_read(caller, reservation)
        return Extended(reservation, extended=False)
    if conditions.find(reservation.conditions, ConditionType.PREEMPTING):
        rights.require_read(caller, reservation)
        return Extended(reservation, extended=False, available_until=end)  # its notice runs (R19)
    new_end = _bounded(reservation, asked, end)
    hold = _stage(reservation, new_end)
    try:
        failpoints.reach(Failpoint.EXTENSION_STAGED)
        allowed = _decide(caller, reservation, hold, new_end)
        return _complete(
            caller, asked, hold, ends=(end, new_end), allowed=allowed, if_match=if_match
        )
    except _EndMoved:
        if not _abandon(hold):
            raise _overtaken() from None
        raise
    except Exception:
        _abandon(hold)
        raise


def available_until(caller: Caller, *, reservation_id: str) -> datetime | None:
    """Until when an extension could go now, None where nothing bounds it (R22). A hint.

    Raises:
        errors.NotFound: the caller's tenant has no such reservation.
        errors.AccessDenied: a policy denies reading it.
        errors.InvalidState: it cannot be extended at all.
    """
    reservation = queries.access(caller, reservation_id)
    rights.require_read(caller, reservation)
    end = _end_of(reservation, clock.now())
    return more_time.bound(ending.live_allocations(reservation), after=end)


def _parse(wanted: ExtendRequest, key: str) -> _Wanted:
    if (wanted.until is None) == (wanted.by is None):
        needed = "exactly one of until and by is required"
        raise errors.InvalidInput(
            errors=[errors.FieldError("until", needed), errors.FieldError("by", needed)]
        )
    try:
        if wanted.by is not None:
            return _Wanted(None, durations.parse(wanted.by), key)
        assert wanted.until is not None
        return _Wanted(instants.parse(wanted.until), None, key)
    except durations.InvalidDuration as error:
        raise errors.InvalidInput.at("by", str(error)) from error
    except instants.InvalidInstant as error:
        raise errors.InvalidInput.at("until", str(error)) from error


def _made_before(caller: Caller, reservation: Reservation, asked: _Wanted) -> bool:
    """Whether this key has extended it already; only a refusal is decided again (R33)."""
    row = EXTENSION.one(
        "made",
        reservation_id=reservation.id,
        account_id=caller.account_id,
        idempotency_key=asked.key,
    )
    if row is None:
        return False
    if row[0] != asked.hash:
        raise errors.Conflict(
            "This idempotency key was used for a different extension.",
            reservationId=reservation.id,
        )
    return True


def _end_of(reservation: Reservation, now: datetime) -> datetime:
    """The end that would move.

    Raises:
        errors.InvalidState: it is in no state that is extended, or its end has passed.
    """
    if reservation.state not in states.HOLDING:
        raise errors.InvalidState(
            f"Only what is placed, binding or active is extended; this is {reservation.state}.",
            state=reservation.state,
        )
    assert reservation.ends_at is not None
    if reservation.ends_at <= now:
        raise errors.InvalidState("Its end has passed.", state=reservation.state)
    return reservation.ends_at


def _bounded(reservation: Reservation, asked: _Wanted, end: datetime) -> datetime:
    """The new end, where the whole duration is one that a create may ask for."""
    assert reservation.starts_at is not None
    new_end_ms = asked.end_after(end)
    if new_end_ms - clock.to_ms(reservation.starts_at) > YEARS_5_MS:
        field = "until" if asked.until_ms is not None else "by"
        raise errors.InvalidInput.at(field, "the whole duration must be at most 5 years")
    return clock.from_ms(new_end_ms)


def _stage(reservation: Reservation, new_end: datetime) -> Hold:
    assert reservation.starts_at is not None
    total_ms = clock.to_ms(new_end) - clock.to_ms(reservation.starts_at)
    return extend_holds.take(reservation, duration_minutes=_minutes(total_ms))


def _decide(caller: Caller, reservation: Reservation, hold: Hold, new_end: datetime) -> _Allowed:
    """One decision on the total duration, outside any transaction, and the pool's limit."""
    assert reservation.starts_at is not None
    total_ms = clock.to_ms(new_end) - clock.to_ms(reservation.starts_at)
    ahead_ms = max(0, clock.to_ms(new_end) - clock.now_ms())
    asked = replace(
        hold.before, duration_minutes=_minutes(total_ms), ahead_minutes=_minutes(ahead_ms)
    )
    decision = rights.may_extend(caller, reservation, attributes=asked)
    if decision.effect == "deny":
        decision.require()
    access = catalogue.of_tenant(reservation.tenant_id, reservation.pool_id)
    longest = access.policy.max_duration
    if longest is not None and total_ms > longest:
        limit = f"duration at most {durations.human(longest)}"
        raise errors.AccessDenied(f"The pool {access.name} allows: {limit}.", poolLimits=[limit])
    until = {"verb": "extend", "until": clock.to_ms(new_end)}
    granted = asking.approval(caller, decision, Intent(rights.EXTEND, reservation.id, until))
    return _Allowed(access.budgeted, granted)


def _complete(
    caller: Caller,
    asked: _Wanted,
    hold: Hold,
    *,
    ends: tuple[datetime, datetime],
    allowed: _Allowed,
    if_match: frozenset[int] | None,
) -> Extended:
    """The second transaction: book the added time, move the end, tell everybody."""
    end, new_end = ends
    with transaction.atomic(durable=True):
        locked = queries.access_locked(caller, hold.reservation_id)
        etags.require(locked.version, if_match)
        if _end_of(locked, locked.read_at) != end:
            raise _EndMoved
        if allowed.budgeted:
            spending.require(spending.longer(locked, start=end, end=new_end))
        catalogue.lock(locked.pool_id)  # bookings of a batch and of a gang are not sorted together
        allocations = ending.live_allocations(locked)
        try:
            with transaction.atomic():
                more_time.book(allocations, start=end, end=new_end)
        except more_time.Taken:
            if not extend_holds.release(hold):
                raise _overtaken() from None
            return Extended(
                locked, extended=False, available_until=more_time.bound(allocations, after=end)
            )
        _move_end(locked, allocations, new_end, allowed.granted)
        _remember(caller, locked, asked, end)
        if not extend_holds.release(hold, after=_after(hold, locked)):
            raise _overtaken()
    return Extended(locked, extended=True)


def _move_end(
    reservation: Reservation,
    allocations: Sequence[Allocation],
    new_end: datetime,
    granted: Approval | None,
) -> None:
    assert reservation.starts_at is not None
    lifecycle.amend(
        reservation,
        {
            "ends_at": new_end,
            "duration_ms": clock.to_ms(new_end) - clock.to_ms(reservation.starts_at),
            # Raised again before the new end (R25).
            "conditions": conditions.clear(reservation.conditions, ConditionType.ENDING_SOON),
        },
    )
    assignments.prolong([allocation.id for allocation in allocations], until=new_end)
    asking.use(granted)
    effects = Effects()
    effects.event(reservation, "extended", end=clock.to_ms(new_end))
    # The old end is when it would be looked at next, perhaps too late for that notice.
    notice = max(new_end - moments.ENDING_NOTICE, reservation.read_at)
    effects.wake(lifecycle.KIND, reservation.id, notice)
    effects.flush()


def _remember(caller: Caller, reservation: Reservation, asked: _Wanted, end: datetime) -> None:
    EXTENSION.run(
        "remember",
        reservation_id=reservation.id,
        account_id=caller.account_id,
        idempotency_key=asked.key,
        request_hash=asked.hash,
        ends_before=end,
        ends_after=reservation.ends_at,
    )


def _after(hold: Hold, reservation: Reservation) -> Attributes:
    return replace(hold.before, duration_minutes=_minutes(reservation.duration_ms))


def _overtaken() -> errors.Conflict:
    return errors.Conflict(
        "This extension took more than a minute and another one overtook it.",
        reason="extend-in-flight",
        retryAfterSeconds=extend_holds.HOLD_SECONDS,
    )


def _abandon(hold: Hold) -> bool:
    """A refused change is cleared, so that it is never part of a later decision (R33).

    False where the hold was lost, or the database is away: then it lapses, and whoever takes it
    over clears the change.
    """
    try:
        with transaction.atomic(durable=True):
            return extend_holds.release(hold)
    except Error:
        return False


def _minutes(milliseconds: int) -> int:
    return -(-milliseconds // MINUTE_MS)  # rounded up, as for a create
