"""Planned maintenance, announced and cancelled by operators and the pool's owner (N18)."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from bettercompute import clock, errors
from bettercompute.iam import decisions
from bettercompute.iam.callers import Caller
from bettercompute.iam.decisions import Attributes
from nodes import maintenance, queries
from nodes.maintenance import Held, Place, Window

MANAGE_POOL = "compute:pools:manage"
AHEAD_MAX = timedelta(days=5 * 366)
LENGTH_DAYS_MAX = 366
LENGTH_MAX = timedelta(days=LENGTH_DAYS_MAX)
REASON_MAX = 300


@dataclass(frozen=True, slots=True)
class Planned:
    """When, and what for."""

    start: datetime
    end: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class Effect:
    """Maintenance, and what is held in its time and stays; before it is announced there is none."""

    window: Window | None
    held: tuple[Held, ...]
    created: bool = False


def access(caller: Caller, *, pool_id: str | None = None, node_id: str | None = None) -> Place:
    """The node or pool, if the caller may announce maintenance of it.

    Raises:
        errors.NotFound: there is none, or it is somebody else's.
        errors.AccessDenied: a policy denies it.
    """
    if node_id is not None:
        queries.access_node(caller, node_id, action=queries.MANAGE)
    at = maintenance.place(pool_id=pool_id, node_id=node_id)
    if at is None or not (caller.is_operator or at.tenant_id == caller.tenant_id):
        raise errors.NotFound(f"There is no pool {(pool_id or '')[:100]} of yours.")
    if node_id is None:
        _require_pool(caller, at)
    return at


def access_window(caller: Caller, window_id: str) -> Window:
    """Maintenance that the caller may cancel.

    Raises:
        errors.NotFound: there is none, or it is in somebody else's pool.
        errors.AccessDenied: a policy denies it.
    """
    window = maintenance.get(window_id)
    if not (caller.is_operator or window.tenant_id == caller.tenant_id):
        raise maintenance.not_found(window_id)
    access(caller, pool_id=None if window.node_id else window.pool_id, node_id=window.node_id)
    return window


def preview(caller: Caller, at: Place, planned: Planned) -> Effect:
    """Whom it would meet."""
    _check(planned)
    return Effect(None, _held(at, planned.start, planned.end))


def announce(caller: Caller, at: Place, planned: Planned) -> Effect:
    """Keep new bookings clear of it. Repeating it changes nothing.

    Raises:
        errors.InvalidInput: it is over already, has no length or reason, or is too far or too long.
        errors.InvalidState: the pool has too much of it announced already.
    """
    _check(planned)
    window, created = maintenance.announce(
        at,
        start=planned.start,
        end=planned.end,
        reason=planned.reason,
        account_id=caller.account_id,
    )
    return Effect(window, _held(at, planned.start, planned.end), created)


def effect(window: Window) -> Effect:
    """Whom it meets."""
    return Effect(window, _held(window.place, window.start, window.end))


def cancel(caller: Caller, window_id: str, *, if_match: frozenset[int] | None = None) -> Effect:
    """Let its time be booked again. Raises as ``access_window`` and ``maintenance.cancel``."""
    access_window(caller, window_id)
    return effect(maintenance.cancel(window_id, account_id=caller.account_id, if_match=if_match))


def _require_pool(caller: Caller, at: Place) -> None:
    attributes = Attributes(tenant=at.tenant_id, pool=at.pool_id)
    decisions.decide(caller, MANAGE_POOL, resource_id=at.pool_id, attributes=attributes).require()


def _held(at: Place, start: datetime, end: datetime) -> tuple[Held, ...]:
    return tuple(maintenance.meeting(at, start=start, end=end))


def _check(planned: Planned) -> None:
    """What no maintenance can be, at its field."""
    now = clock.now()
    wrong = []
    if planned.start > now + AHEAD_MAX:
        wrong.append(errors.FieldError("start", "must be at most 5 years ahead"))
    elif planned.end <= planned.start:
        wrong.append(errors.FieldError("end", "must be after start"))
    elif planned.end <= now:
        wrong.append(errors.FieldError("end", "has passed"))
    elif planned.end - planned.start > LENGTH_MAX:
        wrong.append(
            errors.FieldError("end", f"must be at most {LENGTH_DAYS_MAX} days after start")
        )
    if not 1 <= len(planned.reason.strip()) <= REASON_MAX:
        wrong.append(errors.FieldError("reason", f"must have 1 to {REASON_MAX} characters"))
    if wrong:
        raise errors.InvalidInput(errors=wrong)
