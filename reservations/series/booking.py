"""Booking one occurrence: admitted like any reservation, on behalf of its owner, or not at all.

The policies decide on it, its quota is charged, and it is placed for its own time, in that order
(R10). What a create would refuse or let wait leaves an occurrence unbooked: nothing is charged for
it, its row says why, and it is tried again, the more often the nearer it is, until it would begin.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from bettercompute import clock, errors
from bettercompute.coordination.fencing import Fence
from bettercompute.iam.callers import Caller
from bettercompute.states import ReservationState
from pools import catalogue, requests, shares
from pools.planner.plan import NoFit
from reservations import admission, conditions, lifecycle, moments, outcomes, queries
from reservations.conditions import ConditionType
from reservations.lifecycle import Effects
from reservations.models import Reservation, Series
from reservations.placement import Unplaced
from reservations.series import rows
from reservations.spot import preemption


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an occurrence could not be booked; ``soon`` where only rivals were faster."""

    reason: str
    message: str
    soon: bool = False


class _DoesNotFit(Exception):
    """Nothing is kept of this try."""

    def __init__(self, outcome: Unplaced) -> None:
        self.outcome = outcome
        super().__init__(outcomes.explain(outcome))


def book(caller: Caller, reservation_id: str, fence: Fence) -> None:
    """Try one unbooked occurrence.

    Raises:
        errors.Unavailable: the policy engine cannot decide; nothing changed.
    """
    draft = Reservation.objects.filter(id=reservation_id, state=ReservationState.DRAFT).first()
    if draft is None:
        return
    try:
        _book(caller, draft, fence)
    except _DoesNotFit as error:
        soon = error.outcome.lost_to_rivals
        refusal = Refusal(outcomes.why(error.outcome), str(error), soon=soon)
        _put_off(draft.id, refusal, fence)
    except errors.ApiError as error:
        if error.status >= 500:
            raise
        _put_off(draft.id, Refusal(_in_words(error.code), error.message), fence)


def _book(caller: Caller, draft: Reservation, fence: Fence) -> None:
    request = requests.restore(draft.request, tenant_id=draft.tenant_id)
    access = catalogue.access_pool(caller, draft.pool_id)
    ask = admission.asked(access, request, shares.resolve(draft.host_share, request))
    ask = admission.weighed(caller, ask, draft.id)
    decision = admission.judge(caller, ask, draft.id)
    decision.require()
    found = admission.look(ask, draft.id)
    claim = admission.claim_of(draft.id, request, access, ask.share)
    lacks_room = isinstance(found, NoFit) and not access.queued
    makes_way = lacks_room and preemption.look(claim) is not None
    with fence():
        if not rows.still_has(draft):
            return
        reservation = queries.locked(draft.id)
        if reservation is None or not _is_unbooked(reservation):
            return
        effects = Effects()
        reservation.conditions = []  # what kept it from being booked is over
        outcome = admission.commit(
            reservation, ask, found, decision=decision, effects=effects, retry_at=None
        )
        if isinstance(outcome, Unplaced) and not makes_way:
            raise _DoesNotFit(outcome)
        effects.flush()
    if makes_way:
        preemption.try_preempt(claim, fence)  # if that is too late, it waits, until it would begin


def _is_unbooked(reservation: Reservation) -> bool:
    """Whether it may still be booked: what has begun would begin late."""
    assert reservation.occurrence_at is not None
    ahead = reservation.occurrence_at > reservation.read_at
    return reservation.state == ReservationState.DRAFT and ahead


def _put_off(reservation_id: str, refusal: Refusal, fence: Fence) -> None:
    """Write down why it is not booked, tell it once, and say when it is tried again."""
    with fence():
        reservation = queries.locked(reservation_id)
        if reservation is None or not _is_unbooked(reservation):
            return
        now = reservation.read_at
        known = conditions.find(reservation.conditions, ConditionType.UNSCHEDULABLE)
        noted = conditions.put(
            reservation.conditions,
            ConditionType.UNSCHEDULABLE,
            reason=refusal.reason,
            message=refusal.message,
            now_ms=clock.to_ms(now),
        )
        assert reservation.occurrence_at is not None
        retry_at = now + pause(reservation.occurrence_at - now, soon=refusal.soon)
        lifecycle.amend(reservation, {"conditions": noted, "retry_at": retry_at})
        if known is None or known["reason"] != refusal.reason:
            _tell(reservation, refusal)


def pause(ahead: timedelta, *, soon: bool = False) -> timedelta:
    """How long to wait before an occurrence that begins so far ahead is tried again."""
    if soon:
        return moments.RIVAL_RETRY
    return min(max(ahead / 12, timedelta(minutes=1)), timedelta(hours=1))


def _tell(reservation: Reservation, refusal: Refusal) -> None:
    series = Series.objects.get(pk=reservation.series_id)
    rows.tell(
        series,
        "unbooked",
        occurrence_at=reservation.occurrence_at,
        reservationId=reservation.id,
        reason=refusal.reason,
        message=refusal.message,
    )


def _in_words(code: str) -> str:
    """``QUOTA_EXCEEDED`` as the reason of a condition: ``QuotaExceeded``."""
    return "".join(word.title() for word in code.split("_"))


def miss(reservation_id: str, fence: Fence) -> None:
    """Its time has come and it was not booked: it will not be, for it would begin late."""
    with fence():
        reservation = queries.locked(reservation_id)
        if reservation is None or reservation.state != ReservationState.DRAFT:
            return
        expire(reservation, reason="missed", at=reservation.read_at)


def expire(reservation: Reservation, *, reason: str, at: datetime) -> None:
    """End an unbooked occurrence whose row is locked; its conditions keep saying why."""
    effects = Effects()
    values = {"reason": reason, "ended_at": at, "retry_at": None}
    lifecycle.move(reservation, ReservationState.EXPIRED, values)
    effects.event(reservation, "expired", reason=reason)
    effects.flush()
