"""Ending a series: from one occurrence on, or altogether.

The first transaction says from when on there is none; from then on nobody writes any down. Each
occurrence is then locked and withdrawn in a transaction of its own, also one that was being booked
meanwhile; what a crash leaves of that, the reconciler does.
"""

from collections.abc import Mapping
from datetime import datetime
from functools import partial

from django.db import transaction

from bettercompute import clock, errors, states
from bettercompute.coordination import workqueue
from bettercompute.coordination.fencing import Fence
from bettercompute.iam import decisions
from bettercompute.iam.callers import Caller
from bettercompute.iam.decisions import Attributes
from bettercompute.states import ReservationState, SeriesState
from bettercompute.web import etags
from reservations import ending, opening, queries
from reservations.confirming import asking
from reservations.confirming.asking import Approval
from reservations.confirming.rows import Intent
from reservations.lifecycle import Effects
from reservations.models import Reservation, Series
from reservations.series import booking, rows

_own_transaction = partial(transaction.atomic, durable=True)


def cancel(
    caller: Caller,
    *,
    series_id: str,
    since: datetime | None = None,
    release_running: bool = False,
    if_match: frozenset[int] | None = None,
) -> None:
    """Book no more of its occurrences, and withdraw those that have not begun.

    With ``since`` only those that begin then or later; earlier ones are booked as before. One that
    runs stays until its end, unless it is to be released, too.

    Raises:
        errors.NotFound: the caller's tenant has no such series.
        errors.AccessDenied: a policy denies it.
        errors.ConfirmationRequired: an agent's person has to approve it first.
        errors.PreconditionFailed: ``if_match`` has not the current version (C2).
        errors.InvalidState: its last occurrence has begun.
    """
    asked = {"verb": "cancel-series", "from": _ms(since), "releaseRunning": release_running}
    found = rows.access(caller, series_id)
    changes = _would_change(found, release_running=release_running)
    granted = _authorise(caller, found, asked, changes=changes)
    with transaction.atomic(durable=True):
        series = rows.access_locked(caller, series_id)
        etags.require(series.version, if_match)
        if _would_change(series, release_running=release_running):
            asking.use(granted)
        _cut(series, since)
    withdraw_behind_cut(series_id, _own_transaction)
    if release_running:
        _release_running(series_id)


def skip(
    caller: Caller,
    *,
    series_id: str,
    occurrence: datetime,
    if_match: frozenset[int] | None = None,
) -> None:
    """Leave out one occurrence that has not begun: it is not booked, or no longer, and never again.

    Raises:
        errors.NotFound: the caller's tenant has no such series.
        errors.AccessDenied: a policy denies it.
        errors.ConfirmationRequired: an agent's person has to approve it first.
        errors.InvalidInput: the series has no occurrence then, or none that is near enough.
        errors.InvalidState: it has begun, or has ended.
        errors.PreconditionFailed: ``if_match`` has not the series' current version (C2).
    """
    asked = {"verb": "skip", "occurrence": _ms(occurrence)}
    series = rows.access(caller, series_id)
    granted = _authorise(caller, series, asked, changes=series.state == SeriesState.ACTIVE)
    with transaction.atomic(durable=True):
        series = rows.access_locked(caller, series_id)
        etags.require(series.version, if_match)
        found = Reservation.objects.filter(series=series, occurrence_at=occurrence).first()
        if found is None:
            raise errors.InvalidInput.at(
                "occurrence", "is none of the occurrences that are booked, or wait to be"
            )
        left = _withdraw(found.id, reason="skipped", granted=granted)
        _require_left_out(left)


def _require_left_out(occurrence: Reservation) -> None:
    """Whether there will be no such occurrence: not where it has begun, or even ended."""
    if occurrence.state in states.HOLDING:
        raise errors.InvalidState("It has begun; release it.", reservationId=occurrence.id)
    if occurrence.state == ReservationState.RELEASED:
        raise errors.InvalidState("It has ended already.", reservationId=occurrence.id)


def _would_change(series: Series, *, release_running: bool) -> bool:
    """Whether cancelling it changes anything: of a cancelled one there is what still runs."""
    if series.state == SeriesState.CANCELLED:
        return release_running
    return series.state == SeriesState.ACTIVE


def _authorise(
    caller: Caller, series: Series, asked: Mapping[str, object], *, changes: bool
) -> Approval | None:
    known = Attributes(tenant=series.tenant_id, owner=series.owner_id, pool=series.pool_id)
    decision = decisions.decide(caller, ending.ACTION, resource_id=series.id, attributes=known)
    if decision.effect == "confirm" and not changes:
        return asking.UNASKED
    return asking.approval(caller, decision, Intent(ending.ACTION, series.id, asked))


def _ms(instant: datetime | None) -> int | None:
    return None if instant is None else clock.to_ms(instant)


def _cut(series: Series, since: datetime | None) -> None:
    """Say from when on there is none; once more changes nothing."""
    match SeriesState(series.state):
        case SeriesState.CANCELLED:
            return
        case SeriesState.ENDED:
            raise errors.InvalidState("Its last occurrence has begun.", state=series.state)
        case SeriesState.ACTIVE:
            pass
    wanted = since or series.read_at
    cut = wanted if series.cut_at is None else min(series.cut_at, wanted)
    if cut <= series.read_at:
        workqueue.enqueue(opening.KIND, series.id)
        rows.finish(series, SeriesState.CANCELLED, {"cut_at": series.read_at})
    elif cut != series.cut_at:
        behind = series.next_at is None or series.next_at >= cut
        rows.amend(series, {"cut_at": cut, "next_at": None if behind else series.next_at})
        workqueue.enqueue(opening.KIND, series.id)
        rows.tell(series, "cut", occurrence_at=cut)


def withdraw_behind_cut(series_id: str, fence: Fence) -> None:
    """Withdraw what is not to be, each occurrence by itself."""
    for (reservation_id,) in rows.OCCURRENCES.all("behind_cut", series_id=series_id):
        with fence():
            _withdraw(reservation_id, reason="series-cancelled")


def _withdraw(reservation_id: str, *, reason: str, granted: Approval | None = None) -> Reservation:
    """End an occurrence that has not begun; another stays as it is."""
    reservation = queries.locked(reservation_id)
    assert reservation is not None
    if reservation.state == ReservationState.DRAFT:
        asking.use(granted)
        booking.expire(reservation, reason=reason, at=reservation.read_at)
    elif ending.may_cancel(reservation):
        effects = Effects()
        ending.withdraw(reservation, effects)
        asking.use(granted)
        effects.flush()
    return reservation


def _release_running(series_id: str) -> None:
    for (reservation_id,) in rows.OCCURRENCES.all("running", series_id=series_id):
        with transaction.atomic(durable=True):
            reservation = queries.locked(reservation_id)
            assert reservation is not None
            if reservation.state in states.HOLDING:
                effects = Effects()
                ending.end(reservation, reason="release", effects=effects)
                effects.flush()
