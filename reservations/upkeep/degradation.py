"""While a reservation is active: conditions, never an end (R24).

Node trouble and sick devices raise ``Degraded``; an end that comes near raises ``EndingSoon`` and
``reservation.ending``. Nothing here releases anything.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from bettercompute import clock
from bettercompute.states import AllocationState
from nodes import assignments, maintenance, notices
from nodes import health as node_health
from nodes.maintenance import Next
from reservations import conditions, ending, lifecycle, moments
from reservations.bindings import verdict
from reservations.conditions import Conditions, ConditionType, Reason
from reservations.lifecycle import Effects
from reservations.models import Allocation, Reservation
from reservations.upkeep import repair


def refresh(reservation: Reservation, now: datetime, effects: Effects) -> None:
    """Set and clear the conditions of an active reservation from its nodes and devices."""
    allocations = ending.live_allocations(reservation)
    followed = _follow_reports(reservation, allocations)
    work = _work(reservation, allocations, now)
    wanted = _degraded(reservation.conditions, [*_troubles(allocations), *_named(work)], now)
    _tell_of_work(reservation, wanted, work, effects)
    wanted = _ending_soon(reservation, wanted, now, effects)
    if wanted != reservation.conditions:
        lifecycle.amend(reservation, {"conditions": wanted})
    elif followed:
        lifecycle.touch(reservation)


def foresee(reservation: Reservation, now: datetime, effects: Effects) -> None:
    """Before its start: say what is wrong with what it will get, as far as repair left it (R18).

    Maintenance is known long before, and said at once; the rest while it is checked.
    """
    if reservation.starts_at is None or reservation.starts_at <= now:
        return
    allocations = ending.live_allocations(reservation)
    work = _work(reservation, allocations, now)
    troubles = _troubles(allocations) if repair.is_due(reservation, now) else ()
    wanted = _degraded(reservation.conditions, [*troubles, *_named(work)], now)
    _tell_of_work(reservation, wanted, work, effects)
    if wanted != reservation.conditions:
        lifecycle.amend(reservation, {"conditions": wanted})


def _follow_reports(reservation: Reservation, allocations: Sequence[Allocation]) -> bool:
    """An allocation that its node let go of binds again; ``BindingLost`` lasts until it has.

    Answers whether any changed.
    """
    reports = {report.allocation_id: report for report in assignments.reports(reservation.id)}
    said = verdict.judge(allocations, reports)
    for allocation in said.lost:
        lifecycle.move_allocation(allocation, AllocationState.BINDING)
    for allocation in said.bound:
        document = verdict.document(allocation, reports[allocation.id])
        lifecycle.move_allocation(allocation, AllocationState.BOUND, {"binding": document})
    return bool(said.lost or said.bound)


def _troubles(allocations: Sequence[Allocation]) -> Iterable[tuple[Reason, str]]:
    """What is wrong now, the gravest first."""
    lost = [a.node_id for a in allocations if a.state == AllocationState.BINDING]
    for place in notices.places(lost):
        yield Reason.BINDING_LOST, f"{place.name} let go of the devices it handed over."
    health = node_health.of(
        node_ids=[a.node_id for a in allocations],
        device_ids=[device for a in allocations for device in a.device_ids],
    )
    if health.unreachable:
        yield Reason.NODE_UNREACHABLE, f"No contact with {', '.join(health.unreachable)}."
    if health.unhealthy_devices:
        yield Reason.DEVICE_UNHEALTHY, f"Unhealthy: {', '.join(health.unhealthy_devices)}."
    if health.overcommitted:
        yield (
            Reason.HOST_OVERCOMMITTED,
            f"More is booked than {', '.join(health.overcommitted)} has.",
        )


def _work(
    reservation: Reservation, allocations: Sequence[Allocation], now: datetime
) -> Next | None:
    """The first maintenance that its time meets, from now on."""
    assert reservation.starts_at is not None
    return maintenance.first_on(
        [each.node_id for each in allocations],
        start=max(reservation.starts_at, now),
        end=reservation.ends_at,
    )


def _named(work: Next | None) -> list[tuple[Reason, str]]:
    if work is None:
        return []
    start, end = (f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC" for at in (work.start, work.end))
    told = f"Maintenance of {work.node_name} from {start} to {end}: {work.reason.rstrip('.')}."
    return [(Reason.NODE_MAINTENANCE, told)]


def _tell_of_work(
    reservation: Reservation, wanted: Conditions, work: Next | None, effects: Effects
) -> None:
    """Once, when that becomes what is wrong with it."""
    if work is None or not _is_work(wanted) or _is_work(reservation.conditions):
        return
    effects.event(
        reservation,
        "maintenance",
        reason=work.reason,
        start=clock.to_ms(work.start),
        end=clock.to_ms(work.end),
    )


def _is_work(known: Sequence[dict[str, Any]]) -> bool:
    found = conditions.find(known, ConditionType.DEGRADED)
    return found is not None and found["reason"] == Reason.NODE_MAINTENANCE


def _degraded(
    known: Sequence[dict[str, Any]], troubles: Iterable[tuple[Reason, str]], now: datetime
) -> Conditions:
    gravest = next(iter(troubles), None)
    if gravest is None:
        return conditions.clear(known, ConditionType.DEGRADED)
    reason, message = gravest
    return conditions.put(
        known, ConditionType.DEGRADED, reason=reason, message=message, now_ms=clock.to_ms(now)
    )


def _ending_soon(
    reservation: Reservation, known: Conditions, now: datetime, effects: Effects
) -> Conditions:
    assert reservation.ends_at is not None
    if reservation.ends_at - moments.ENDING_NOTICE > now:
        return conditions.clear(known, ConditionType.ENDING_SOON)  # re-armed by an extension
    if conditions.find(known, ConditionType.ENDING_SOON) is not None:
        return known
    end_ms = clock.to_ms(reservation.ends_at)
    effects.event(reservation, "ending", end=end_ms)
    return conditions.put(
        known,
        ConditionType.ENDING_SOON,
        reason="EndReached",
        message="It ends within 15 minutes.",
        now_ms=clock.to_ms(now),
    )
