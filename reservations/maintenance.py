"""Planned maintenance with whose reservations it meets: what nodes cannot know (N18)."""

from collections.abc import Sequence
from datetime import timedelta

from bettercompute import clock, durations, errors, sql
from bettercompute.iam.callers import Caller
from bettercompute.states import ReservationState
from bettercompute.wire import maintenance as wire
from bettercompute.wire.base import MILLISECONDS_MAX
from bettercompute.wire.reservations import Window
from nodes import maintenance
from nodes import queries as nodes
from nodes.maintenance import Held
from nodes.operations import maintenance as operation
from nodes.operations.maintenance import Effect, Planned
from pools import instants
from pools import queries as pools

MAINTENANCE = sql.load(__package__, "maintenance")

AFFECTED_MAX = 500


def announce(
    caller: Caller,
    wanted: wire.MaintenanceRequest,
    *,
    pool_id: str | None = None,
    node_id: str | None = None,
) -> tuple[wire.MaintenanceOperation, bool]:
    """Keep new bookings of a node or pool clear of it, or say whom it would meet.

    Answers whether it is new: repeating it changes nothing.

    Raises:
        errors.NotFound, errors.AccessDenied: it is not the caller's to announce.
        errors.InvalidInput: it is over already, has no length, or is too far or too long.
        errors.InvalidState: the pool has too much of it announced already.
    """
    planned = _planned(wanted)
    at = operation.access(caller, pool_id=pool_id, node_id=node_id)
    if wanted.preview:
        return _told(operation.preview(caller, at, planned), applied=False), False
    done = operation.announce(caller, at, planned)
    return _told(done, applied=True), done.created


def cancel(
    caller: Caller,
    window_id: str,
    *,
    preview: bool = False,
    if_match: frozenset[int] | None = None,
) -> wire.MaintenanceOperation:
    """Let its time be booked again, or say whom it meets. Repeating it changes nothing.

    Raises:
        errors.NotFound, errors.AccessDenied: it is not the caller's to cancel.
        errors.InvalidState: it is over.
        errors.PreconditionFailed: its version is not one of ``if_match`` (C2).
    """
    if preview:
        window = operation.access_window(caller, window_id)
        return _told(operation.effect(window), applied=False)
    return _told(operation.cancel(caller, window_id, if_match=if_match), applied=True)


def get(caller: Caller, window_id: str) -> wire.MaintenanceDetails:
    """One of them with whom it meets, for whoever may cancel it. Raises as ``cancel``."""
    window = operation.access_window(caller, window_id)
    told = _told(operation.effect(window), applied=False)
    return wire.MaintenanceDetails(
        **_shown(window, with_names=True).model_dump(),
        affected=told.affected,
        affected_total=told.affected_total,
    )


def of_pool(caller: Caller, pool_id: str) -> list[wire.Maintenance]:
    """What is planned in a pool that the caller may book, its nodes included.

    Raises:
        errors.NotFound, errors.AccessDenied: the caller may not book it.
    """
    access = pools.readable_pool(caller, pool_id)
    with_names = access.owned or caller.is_operator
    return [_shown(each, with_names=with_names) for each in maintenance.standing(pool_id)]


def of_node(caller: Caller, node_id: str) -> list[wire.Maintenance]:
    """What is planned of a node that the caller may see: its own, and its pool's.

    Raises:
        errors.NotFound, errors.AccessDenied: the caller may not see it.
    """
    place = nodes.access_node(caller, node_id)
    windows = maintenance.standing(place.pool_id, node_id=node_id)
    return [_shown(each, with_names=True) for each in windows]


def _planned(wanted: wire.MaintenanceRequest) -> Planned:
    """When, from any notation."""
    if (wanted.end is None) == (wanted.duration is None):
        needed = "exactly one of end and duration is required"
        raise errors.InvalidInput(
            errors=[errors.FieldError("end", needed), errors.FieldError("duration", needed)]
        )
    wrong: list[errors.FieldError] = []
    start_ms = _instant(wanted.start, "start", wrong)
    if wanted.end is not None:
        end_ms = _instant(wanted.end, "end", wrong)
    else:
        assert wanted.duration is not None
        end_ms = min(start_ms + _length_ms(wanted.duration, wrong), MILLISECONDS_MAX)
    if wrong:
        raise errors.InvalidInput(errors=wrong)
    return Planned(clock.from_ms(start_ms), clock.from_ms(end_ms), wanted.reason.strip())


def _instant(value: int | str, path: str, wrong: list[errors.FieldError]) -> int:
    try:
        return instants.parse(value)
    except instants.InvalidInstant as error:
        wrong.append(errors.FieldError(path, str(error)))
        return 0


def _length_ms(value: int | str, wrong: list[errors.FieldError]) -> int:
    longest_ms = operation.LENGTH_MAX // timedelta(milliseconds=1)
    try:
        length_ms = durations.parse(value)
    except durations.InvalidDuration as error:
        wrong.append(errors.FieldError("duration", str(error)))
        return 0
    if length_ms > longest_ms:
        wrong.append(
            errors.FieldError("duration", f"must be at most {operation.LENGTH_DAYS_MAX} days")
        )
        return 0
    return length_ms


def _told(effect: Effect, *, applied: bool) -> wire.MaintenanceOperation:
    affected = _affected(effect.held)
    return wire.MaintenanceOperation(
        maintenance=None if effect.window is None else _shown(effect.window, with_names=True),
        applied=applied,
        affected=affected[:AFFECTED_MAX],
        affected_total=len(affected),
    )


def _affected(held: Sequence[Held]) -> list[wire.Affected]:
    """One row a reservation, by start, however many nodes it has there."""
    parts: dict[str, list[Held]] = {}
    for each in held:
        parts.setdefault(each.owner_key, []).append(each)
    rows = MAINTENANCE.all("affected", ids=list(parts)) if parts else []
    known = {row[0]: row for row in rows}
    return [_row(known[key], some) for key, some in parts.items() if key in known]


def _row(row: sql.Row, parts: Sequence[Held]) -> wire.Affected:
    reservation_id, tenant_id, tenant, owner_id, owner, state = row
    return wire.Affected(
        reservation_id=reservation_id,
        tenant_id=tenant_id,
        tenant=tenant,
        owner_identity_id=owner_id,
        owner=owner,
        state=ReservationState(state),
        during=Window(
            start=clock.to_ms(min(part.start for part in parts)),
            end=clock.to_ms(max(part.end for part in parts)),
        ),
        nodes=sorted({part.node_name for part in parts}),
        devices=sum(part.devices for part in parts),
    )


def _shown(window: maintenance.Window, *, with_names: bool) -> wire.Maintenance:
    return wire.Maintenance(
        id=window.id,
        pool_id=window.pool_id,
        node_id=window.node_id,
        node=window.node_name,
        start=clock.to_ms(window.start),
        end=clock.to_ms(window.end),
        reason=window.reason,
        state=_state(window),
        announced_by=window.announced_by if with_names else None,
        announced_at=clock.to_ms(window.announced_at),
        version=window.version,
    )


def _state(window: maintenance.Window) -> wire.State:
    now = clock.now()
    if window.cancelled_at is not None:
        return "cancelled"
    if window.end <= now:
        return "over"
    return "under-way" if window.start <= now else "planned"
