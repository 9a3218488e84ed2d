"""Reads of reservations: one, a page, and the rows behind a use case."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Exists, F, Func, OuterRef, Q, QuerySet, TextField
from django.db.models.functions import JSONObject

from bettercompute import clock, errors, sql, states
from bettercompute.columns import ComputeNow
from bettercompute.iam.callers import Caller
from bettercompute.states import AllocationState, ReservationState
from bettercompute.wire import reservations as wire
from bettercompute.wire.base import PAGE_DEFAULT
from pools import prices
from reservations import places, rights
from reservations.models import Allocation, Reservation, ReservationUser
from reservations.places import Place

RESERVATIONS = sql.load(__package__, "queries")

OperationState = Literal["running", "waiting", "succeeded", "failed"]


@dataclass(frozen=True, slots=True)
class Filters:
    """Which reservations a list shows (R37)."""

    scope: str = "mine"
    states: tuple[ReservationState, ...] = ()
    pool_id: str | None = None
    series_id: str | None = None
    #: of each series only the occurrence that comes first in these states
    folds_series: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """One page of reservations, newest first, and the cursor of the next."""

    items: tuple[wire.Reservation, ...]
    next_cursor: str | None


def access(caller: Caller, reservation_id: str) -> Reservation:
    """The reservation, if the caller's tenant has it; drafts are internal (R9).

    Raises:
        errors.NotFound: there is none, it is another tenant's, or it is still a draft.
    """
    return _visible(
        caller, _with_users(Reservation.objects.filter(id=reservation_id)), reservation_id
    )


def access_locked(caller: Caller, reservation_id: str) -> Reservation:
    """The same, locked FOR NO KEY UPDATE, so no reconciler's bump comes between (C2)."""
    return _visible(caller, _locking(reservation_id), reservation_id)


def locked(reservation_id: str) -> Reservation | None:
    """The row a reconciler works on, locked; None where there is none."""
    return _locking(reservation_id).first()


def failed_nodes(reservation_ids: Collection[str]) -> Mapping[str, frozenset[str]]:
    """Where each of these failed to bind before; one that nowhere did is not in here."""
    rows = Allocation.objects.filter(
        reservation_id__in=reservation_ids, state=AllocationState.FAILED
    )
    found: dict[str, set[str]] = {}
    for reservation_id, node_id in rows.values_list("reservation_id", "node_id"):
        found.setdefault(reservation_id, set()).add(node_id)
    return {key: frozenset(nodes) for key, nodes in found.items()}


def locked_together(reservation_ids: Sequence[str]) -> dict[str, Reservation]:
    """Several rows, locked in the order of their ids (C19); those that are there, by id."""
    return {row.id: row for row in _locking(*reservation_ids).order_by("id")}


def _locking(*reservation_ids: str) -> QuerySet[Reservation]:
    """The row, locked, with ``read_at``: what is judged and written under the lock has one now."""
    rows = Reservation.objects.select_for_update(no_key=True).filter(id__in=reservation_ids)
    # Declared on the model too, so that its readers are typed.
    return rows.annotate(read_at=ComputeNow())  # type: ignore[no-redef]


def _visible(caller: Caller, rows: QuerySet[Reservation], reservation_id: str) -> Reservation:
    found = rows.filter(tenant_id=caller.tenant_id).exclude(state=ReservationState.DRAFT).first()
    if found is None:
        raise errors.NotFound(f"There is no reservation {reservation_id[:100]} in this tenant.")
    return found


def get(caller: Caller, reservation_id: str) -> wire.Reservation:
    """The reservation as answered (R5).

    Raises:
        errors.NotFound: as for ``access``.
        errors.AccessDenied: a policy denies it.
    """
    reservation, shown = look(caller, reservation_id)
    rights.require_read(caller, reservation)
    return shown


def look(caller: Caller, reservation_id: str) -> tuple[Reservation, wire.Reservation]:
    """The row, and the reservation as answered, of one instant; no policy is asked.

    Raises:
        errors.NotFound: as for ``access``.
    """
    rows = _with_parts(Reservation.objects.filter(id=reservation_id))
    row = _visible(caller, rows, reservation_id)
    return row, _answer(row, _parts(row), places.of([row]))


def answer(reservation_id: str) -> wire.Reservation:
    """A reservation as answered, as it is now.

    Raises:
        Reservation.DoesNotExist: there is no such row: a mistake of ours.
    """
    row = _with_parts(Reservation.objects.filter(id=reservation_id)).get()
    return _answer(row, _parts(row), places.of([row]))


def page(
    caller: Caller, filters: Filters, *, limit: int = PAGE_DEFAULT, cursor: str | None = None
) -> Page:
    """The caller's own reservations, those shared with it, or the tenant's, newest first (R37).

    Never counts rows.

    Raises:
        errors.InvalidInput: the cursor is not a reservation of this list.
    """
    rows = Reservation.objects.filter(tenant_id=caller.tenant_id)
    rows = rows.exclude(state=ReservationState.DRAFT)
    if filters.scope == "mine":
        rows = rows.filter(owner_id=caller.account_id)
    if filters.scope == "shared":
        rows = rows.filter(users__account_id=caller.account_id)
    if filters.pool_id is not None:
        rows = rows.filter(pool_id=filters.pool_id)
    if filters.series_id is not None:
        rows = rows.filter(series_id=filters.series_id)
    if cursor is not None:
        # Looked for before the states: it may have left its own since that page was read.
        rows = rows.filter(_behind(rows, cursor))
    if filters.states:
        rows = rows.filter(state__in=filters.states)
    if filters.folds_series:
        rows = rows.exclude(Exists(_earlier(filters)))
    found = list(_with_parts(rows).order_by("-created_at", "-id")[: limit + 1])
    more = len(found) > limit
    standing = places.of(found[:limit])
    shown = tuple(_answer(row, _parts(row), standing) for row in found[:limit])
    return Page(shown, shown[-1].id if more else None)


def _behind(rows: QuerySet[Reservation], cursor: str) -> Q:
    last = rows.filter(id=cursor).values_list("created_at", "id").first()
    if last is None:
        raise errors.InvalidInput.at("cursor", "must be the nextCursor of an earlier page")
    created_at, last_id = last
    return Q(created_at__lt=created_at) | Q(created_at=created_at, id__lt=last_id)


def _earlier(filters: Filters) -> QuerySet[Reservation]:
    """The occurrences that stand for this one in a list that folds series."""
    return Reservation.objects.filter(
        series_id=OuterRef("series_id"),
        state__in=filters.states,
        occurrence_at__lt=OuterRef("occurrence_at"),
    )


def placed_answer(row: Reservation, allocations: Sequence[Allocation]) -> wire.Reservation:
    """The row as answered, by the transaction that just wrote it and its allocations."""
    row.shared_with = [key for key in row.request.get("users", []) if key != row.owner_id]
    parts = [_allocation(allocation) for allocation in sorted(allocations, key=lambda a: a.id)]
    return _answer(row, parts, places.of([row]))


def latest(tenant_id: str, *, limit: int) -> list[Reservation]:
    """The tenant's newest reservations; drafts are internal (R9)."""
    rows = Reservation.objects.filter(tenant_id=tenant_id).exclude(state=ReservationState.DRAFT)
    return list(rows.order_by("-created_at", "-id")[:limit])


def several(reservation_ids: Sequence[str]) -> list[tuple[Reservation, wire.Reservation]]:
    """Rows with their answers, of one instant; where they stand in line is not looked up."""
    rows = _with_parts(Reservation.objects.filter(id__in=reservation_ids)).order_by("id")
    return [(row, _answer(row, _parts(row), {})) for row in rows]


def live_keys() -> list[str]:
    """Every reservation that is on its way somewhere: for the resync (C27)."""
    return [key for (key,) in RESERVATIONS.all("live_keys")]


def pending_pools() -> list[str]:
    """Every pool that somebody waits for: for the resync (C27)."""
    return [key for (key,) in RESERVATIONS.all("pending_pools")]


class _NodeName(Func):
    """What a node is called, by its id, read in the same statement as the allocation."""

    template = "(SELECT nodes.name FROM nodes WHERE nodes.id = %(expressions)s)"
    output_field = TextField()


_PART = {name: F(name) for name in wire.Allocation.model_fields} | {"node": _NodeName(F("node_id"))}


def _with_parts(rows: QuerySet[Reservation]) -> QuerySet[Reservation]:
    """Rows with the allocations they have, or had when they ended; what came before is history.

    One statement reads both, so an answer is of one instant: two would show a version with the
    allocations of the next one.
    """
    parts = (
        Allocation.objects.filter(reservation_id=OuterRef("pk"))
        .exclude(state=states.AllocationState.FAILED)
        .filter(Q(ended_at__isnull=True) | Q(ended_at__gte=OuterRef("ended_at")))
        .order_by("id")
        .values(part=JSONObject(**_PART))
    )
    return _with_users(rows).annotate(parts=ArraySubquery(parts))


def _with_users(rows: QuerySet[Reservation]) -> QuerySet[Reservation]:
    """Rows with who may use each: whoever left the tenant is off the list with that."""
    users = ReservationUser.objects.filter(
        reservation_id=OuterRef("pk"),
        account__is_active=True,
        account__memberships__tenant_id=OuterRef("tenant_id"),
    )
    named = users.order_by("account_id").values("account_id")
    return rows.annotate(shared_with=ArraySubquery(named))  # type: ignore[no-redef]


def _parts(row: Reservation) -> list[wire.Allocation]:
    """The allocations that ``_with_parts`` read with the row."""
    read: list[dict[str, Any]] = row.parts  # type: ignore[attr-defined]  # the annotation
    return [wire.Allocation(**part) for part in read]


def _answer(
    row: Reservation, parts: Sequence[wire.Allocation], standing: Mapping[str, Place]
) -> wire.Reservation:
    bindings = [part.binding for part in parts if part.binding is not None]
    return wire.Reservation(
        id=row.id,
        tenant_id=row.tenant_id,
        pool_id=row.pool_id,
        state=ReservationState(row.state),
        request=row.request,
        during=_window(row),
        owner_identity_id=row.owner_id,
        idempotency_key=row.idempotency_key,
        conditions=[wire.Condition.model_validate(entry) for entry in row.conditions],
        # A gang reads its bindings from its allocations (R5).
        binding=bindings[0] if len(parts) == 1 and bindings else None,
        operation=wire.Operation(id=row.id, state=operation_state(row)),
        version=row.version,
        host_share=row.host_share,
        allocations=list(parts),
        quote=prices.quote(gpu_milli=row.gpu_milli, duration_ms=_length_ms(row)),
        created_at=clock.to_ms(row.created_at),
        reason=row.reason or None,
        series_id=row.series_id,
        occurrence=None if row.occurrence_at is None else clock.to_ms(row.occurrence_at),
        lease_until=None if row.lease_until is None else clock.to_ms(row.lease_until),
        agent=row.agent or None,
        confirmation_id=row.confirmation_id or None,
        users=row.shared_with,
        waiting=places.waiting(row, standing.get(row.id)),
    )


def _length_ms(row: Reservation) -> int:
    """How long it is: of its window where it has one, which a release has shortened."""
    if row.starts_at is None or row.ends_at is None:
        return row.duration_ms
    return clock.to_ms(row.ends_at) - clock.to_ms(row.starts_at)


def _window(row: Reservation) -> wire.Window | None:
    if row.starts_at is None or row.ends_at is None:
        return None
    return wire.Window(start=clock.to_ms(row.starts_at), end=clock.to_ms(row.ends_at))


def _allocation(allocation: Allocation) -> wire.Allocation:
    binding: dict[str, Any] | None = allocation.binding
    return wire.Allocation(
        id=allocation.id,
        node_id=allocation.node_id,
        node=allocation.node_name,  # type: ignore[attr-defined]  # set where it was planned
        device_ids=list(allocation.device_ids),
        state=states.AllocationState(allocation.state),
        binding=None if binding is None else wire.NodeBinding.model_validate(binding),
    )


def operation_state(row: Reservation) -> OperationState:
    """Whether placing is still under way (R5)."""
    match ReservationState(row.state):
        case ReservationState.DRAFT:
            return "running"
        case ReservationState.PENDING:
            queued = any(entry["type"] == "Queued" for entry in row.conditions)
            return "running" if queued else "waiting"
        case ReservationState.AWAITING_CONFIRMATION:
            return "waiting"
        case ReservationState.DENIED | ReservationState.FAILED:
            return "failed"
        case ReservationState.EXPIRED | ReservationState.CANCELLED:
            return "succeeded" if row.placed_at is not None else "failed"
        case _:
            return "succeeded"
