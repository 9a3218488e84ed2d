"""Reservations: create, get, list, extend, renew, release, cancel, and waiting for one."""

import secrets
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, TypedDict, Unpack

from pydantic.alias_generators import to_camel

from bettercompute.client import accounts, calls, failures, flows, paging
from bettercompute.client.flows import Api, Flow, Pages, Pause
from bettercompute.states import RESERVATION, ReservationState
from bettercompute.wire import reservations as wire
from bettercompute.wire.base import TenantBody
from bettercompute.wire.reservations import (
    Extended,
    Extension,
    Reservation,
    ReservationList,
    ReservationRequest,
)

POLL_FIRST_SECONDS = 0.1
POLL_SECONDS_MAX = 1.0
HOLD_MS_MAX = 30_000  # the server caps what it waits (R14)

Body: TypeAlias = dict[str, Any]  # JSON, with models of the wire in it


class OfferFields(TypedDict, total=False):
    """The fields of a request but when and how long, of which capacity offers have ranges."""

    pool_id: str
    devices: list[Any]
    binding: wire.Binding | str
    resources: wire.Resources | dict[str, int] | None
    gang: wire.Gang | dict[str, Any] | None
    lease_seconds: int | None
    spot: bool
    node: wire.NodeProfile | dict[str, str] | None
    tolerations: list[Any] | None
    labels: dict[str, str] | None
    priority: int
    users: list[str] | None
    recurrence: wire.Recurrence | dict[str, str] | None


class RequestFields(OfferFields, total=False):
    """The fields of a request as keywords; nested ones as models of the wire or as plain JSON.

    With ``offer_id`` it takes that capacity offer, which says all the rest.
    """

    duration: int | str
    start: int | str | None
    offer_id: str | None


def create(
    api: Api,
    request: ReservationRequest | None = None,
    *,
    idempotency_key: str | None = None,
    wait_seconds: float | None = None,
    **fields: Unpack[RequestFields],
) -> Flow[Reservation]:
    """Reserve, from a whole request or from its fields.

    One call is one intent: its key (a fresh one unless given) goes with every retry, so a lost
    answer never makes a second reservation. To go on after an error, call again with the error's
    ``idempotency_key``. With ``wait_seconds`` the server holds its answer until it is placed, for
    30 seconds at most; no exception tells that it is not, its state does.
    """
    body = yield from compose(api, request, fields)
    key = idempotency_key or body.get("idempotencyKey") or secrets.token_hex(16)
    if wait_seconds is not None:
        body["wait"] = {"timeoutMs": min(round(wait_seconds * 1_000), HOLD_MS_MAX)}
    held_ms = min((body.get("wait") or {}).get("timeoutMs", 0), HOLD_MS_MAX)
    call = calls.post(
        "/reservations",
        {**body, "idempotencyKey": key},
        Reservation,
        repeatable=True,
        holds_seconds=held_ms / 1_000,
    )
    try:
        return (yield from flows.exchange(api, call))
    except failures.ClientError as error:
        error.idempotency_key = key
        raise


def get(api: Api, reservation_id: str) -> Flow[Reservation]:
    """One reservation as it is now."""
    return (yield from _read(api, reservation_id))


def pages(
    api: Api,
    *,
    scope: str = "mine",
    states: Iterable[ReservationState | str] = (),
    pool_id: str | None = None,
    page_size: int = 50,
) -> Pages[Reservation]:
    """Reservations, newest first: one's own, with ``scope="shared"`` those of others that one may
    use, with ``scope="all"`` the tenant's.
    """
    filters = [("scope", scope), ("limit", str(page_size))]
    filters += [("state", str(state)) for state in states]
    filters += [] if pool_id is None else [("poolId", pool_id)]
    call = calls.get("/reservations", ReservationList)
    return paging.pages(api, calls.with_query(call, filters))


def release(api: Api, reservation_id: str, *, version: int | None = None) -> Flow[Reservation]:
    """End it now; an ended one stays as it is. With ``version``, only if it is the current one."""
    return (yield from _verb(api, reservation_id, "release", version))


def cancel(api: Api, reservation_id: str, *, version: int | None = None) -> Flow[Reservation]:
    """Withdraw one that has not started. With ``version``, only if it is the current one."""
    try:
        return (yield from _verb(api, reservation_id, "cancel", version))
    except failures.InvalidState as error:
        if error.attempts == 1:
            raise
        # An earlier attempt may have done it, and only its answer was lost.
        current = yield from get(api, reservation_id)
        if current.state is not ReservationState.CANCELLED:
            raise
        return current


def renew(api: Api, reservation_id: str, *, version: int | None = None) -> Flow[Reservation]:
    """Move its lease's deadline to now plus its length: whoever uses it says that it lives."""
    return (yield from _verb(api, reservation_id, "renew", version))


def change_users(
    api: Api,
    reservation_id: str,
    *,
    add: Iterable[str] = (),
    remove: Iterable[str] = (),
    version: int | None = None,
) -> Flow[Reservation]:
    """Share it with members of the tenant, by account id, or no more.

    Doing so again changes nothing. With ``version``, only if it is the current one.
    """
    call = calls.post(
        f"/reservations/{calls.segment(reservation_id)}/users",
        wire.UsersChange(
            tenant_id=(yield from accounts.tenant_id(api)), add=list(add), remove=list(remove)
        ),
        Reservation,
        repeatable=version is None,
        headers=calls.if_match(version),
    )
    return (yield from flows.exchange(api, call))


def extend(
    api: Api,
    reservation_id: str,
    *,
    until: int | str | None = None,
    by: int | str | None = None,
    idempotency_key: str | None = None,
    version: int | None = None,
) -> Flow[Extended]:
    """Move its end later, to an instant or by a duration; all of it or none.

    One call is one intent, as for ``create``. That others come next is no error: the answer's
    ``extended`` is false, and ``available_until`` says how far it could go. With ``version``, only
    if it is the current one.
    """
    key = idempotency_key or secrets.token_hex(16)
    asked = {"until": until, "by": by}
    call = calls.post(
        f"/reservations/{calls.segment(reservation_id)}/extend",
        {
            "tenantId": (yield from accounts.tenant_id(api)),
            "idempotencyKey": key,
            **{name: value for name, value in asked.items() if value is not None},
        },
        Extended,
        repeatable=True,  # by its key
        headers=calls.if_match(version),
    )
    try:
        return (yield from flows.exchange(api, call))
    except failures.ClientError as error:
        error.idempotency_key = key
        raise


def available_until(api: Api, reservation_id: str) -> Flow[Extension]:
    """Until when an extension could go now; None in it where nothing bounds it."""
    tenant_id = yield from accounts.tenant_id_if_named(api)
    path = f"/reservations/{calls.segment(reservation_id)}/extension"
    return (yield from flows.exchange(api, calls.get(path, Extension, tenantId=tenant_id)))


def wait_until_placed(
    api: Api,
    reservation: Reservation,
    *,
    seconds: float,
    seen: Callable[[Reservation], None] | None = None,
) -> Flow[Reservation]:
    """Poll until placing is over, well or not; what came of it is in the state.

    ``seen`` gets each answer, to tell a person where it stands.

    Raises:
        failures.WaitTimedOut: it is still under way; has the reservation as last seen.
    """
    return (yield from _wait(api, reservation, _is_decided, "placed", seconds=seconds, seen=seen))


def wait_until_active(
    api: Api,
    reservation: Reservation,
    *,
    seconds: float,
    seen: Callable[[Reservation], None] | None = None,
) -> Flow[Reservation]:
    """Poll until its devices are bound, or it has ended; which of these is in the state.

    Raises:
        failures.WaitTimedOut: neither; has the reservation as last seen.
    """
    return (yield from _wait(api, reservation, _is_usable, "active", seconds=seconds, seen=seen))


def compose(api: Api, request: ReservationRequest | None, fields: RequestFields) -> Flow[Body]:
    """The body of a request, given whole or as fields. Whether it is right, the server says."""
    if request is None:
        named = {to_camel(name): value for name, value in fields.items()}
        return {"tenantId": (yield from accounts.tenant_id(api)), **named}
    if fields:
        raise TypeError("give a whole request or its fields, not both")
    return request.model_dump(mode="json", by_alias=True, exclude_none=True)


def _read(api: Api, reservation_id: str, *, seconds: float | None = None) -> Flow[Reservation]:
    tenant_id = yield from accounts.tenant_id_if_named(api)
    call = calls.get(
        f"/reservations/{calls.segment(reservation_id)}", Reservation, tenantId=tenant_id
    )
    return (yield from flows.exchange(api, call, seconds=seconds))


def _verb(api: Api, reservation_id: str, verb: str, version: int | None) -> Flow[Reservation]:
    call = calls.post(
        f"/reservations/{calls.segment(reservation_id)}/{verb}",
        TenantBody(tenant_id=(yield from accounts.tenant_id(api))),
        Reservation,
        # With a version a repetition would meet the version that the first one made.
        repeatable=version is None,
        headers=calls.if_match(version),
    )
    return (yield from flows.exchange(api, call))


def _is_decided(reservation: Reservation) -> bool:
    return reservation.operation.state in ("succeeded", "failed")


def _is_usable(reservation: Reservation) -> bool:
    return reservation.state is ReservationState.ACTIVE or reservation.state in RESERVATION.terminal


def _wait(
    api: Api,
    reservation: Reservation,
    reached: Callable[[Reservation], bool],
    goal: str,
    *,
    seconds: float,
    seen: Callable[[Reservation], None] | None,
) -> Flow[Reservation]:
    deadline = api.monotonic() + seconds
    pause = POLL_FIRST_SECONDS
    while not reached(reservation):
        if seen is not None:
            seen(reservation)
        remaining = deadline - api.monotonic()
        if remaining <= 0:
            raise failures.WaitTimedOut(goal, seconds=seconds, reservation=reservation)
        yield Pause(min(pause, remaining))
        pause = min(pause * 2, POLL_SECONDS_MAX)
        try:
            reservation = yield from _read(
                api, reservation.id, seconds=max(remaining, POLL_SECONDS_MAX)
            )
        except (failures.Unreachable, failures.Unavailable, failures.RateLimited):
            # A server that restarts meanwhile is no reason to stop waiting; the deadline is.
            continue
    return reservation
