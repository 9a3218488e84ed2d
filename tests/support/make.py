"""Makers of reservations, through admission: no state is built that the product cannot reach."""

import itertools
import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from django.db import connection, transaction

from bettercompute import clock
from bettercompute.coordination.runner import At, Outcome
from bettercompute.iam.callers import Caller
from bettercompute.wire.reservations import ReservationRequest
from nodes import eligibility
from nodes.models import Assignment, ReportedState
from pools import catalogue, quota
from pools.models import Placer, Pool
from reservations import admission, reconciler
from reservations.models import Reservation
from reservations.placing import line
from tests.support import cast, supply

RUNS_MAX = 20

_numbers = itertools.count(1)


def pool(*, nodes: int = 1, gpus: int = 8, quota_gpus: int = 256, **policy: Any) -> Pool:
    """A pool of acme with H100 hosts whose agents enforce limits, and a quota to book it."""
    made = supply.pool(**policy)
    for _ in range(nodes):
        node(made, gpus=gpus)
    grant("acme", gpus=quota_gpus)
    return made


def placed_by(placer: Placer, pool: Pool) -> Pool:
    """The pool, from now on served by this placer."""
    catalogue.change_pool(pool.pk, region=pool.region, policy=pool.policy, placer=placer)
    pool.refresh_from_db()
    return pool


def node(in_pool: Pool, *, gpus: int = 8, **host: Any) -> str:
    """One more node; answers its id."""
    made = supply.node(in_pool, gpus=gpus, **host)
    eligibility.set_system_labels(made.pk, {"bc.dev/cap.devices.limits": "true"})
    return made.pk


def grant(slug: str, *, gpus: int) -> None:
    """A tenant's quota, with plenty of host resources."""
    tenant_id = cast.tenant(slug).pk
    for resource, amount in {"gpuMilli": gpus * 1_000, "vcpu": 10**5, "memoryGiB": 10**6}.items():
        quota.set_max(tenant_id, resource, amount)


def request(caller: Caller, pool: Pool | str, **changes: Any) -> ReservationRequest:
    """One GPU for an hour, unless said otherwise; keys are the wire's."""
    body = {
        "tenantId": caller.tenant_id,
        "poolId": pool if isinstance(pool, str) else pool.pk,
        "devices": [{"class": "gpu", "count": changes.pop("gpus", 1)}],
        "duration": "1h",
        **changes,
    }
    return ReservationRequest.model_validate_json(json.dumps(body))


def key() -> str:
    """An idempotency key that nobody used."""
    return f"key-{next(_numbers)}"


def reservation(
    caller: Caller, pool: Pool | str, *, idempotency_key: str | None = None, **changes: Any
) -> Reservation:
    """What admission makes of a request."""
    admitted = admission.admit(
        caller, request(caller, pool, **changes), idempotency_key=idempotency_key or key()
    )
    return Reservation.objects.get(pk=admitted.reservation_id)


def series(caller: Caller, pool: Pool | str, **changes: Any) -> str:
    """One GPU for an hour, three days running from tomorrow on; answers the series' id."""
    recurrence = {"rule": "FREQ=DAILY;COUNT=3", "timeZone": "Europe/Berlin"}
    fields = {"start": clock.now_ms() + 86_400_000, "recurrence": recurrence, **changes}
    made = reservation(caller, pool, **fields)
    assert made.series_id is not None
    return str(made.series_id)


def look(reservation: Reservation) -> Reservation:
    """Reconcile it until it asks for a later look; answers the row as it is then."""
    for _ in range(RUNS_MAX):
        outcome = reconciler.reconcile(reservation.pk, fence)
        if not _at_once(outcome):
            return Reservation.objects.get(pk=reservation.pk)
    raise AssertionError(f"{reservation} never comes to rest")


def look_at_pool(pool: Pool) -> None:
    """Let the pool's pending reservations try again."""
    line.reconcile(pool.pk, fence)


def fence() -> AbstractContextManager[object]:
    """A transaction of a reconciler, without a lease."""
    return transaction.atomic(durable=not connection.in_atomic_block)


def report(reservation: Reservation, state: ReportedState, **body: Any) -> None:
    """What the nodes of a reservation say of its assignments, as the gateway stores it."""
    for assignment in Assignment.objects.filter(owner_key=reservation.pk):
        assignment.reported = state
        assignment.reported_at = clock.now()
        assignment.report = body or _bound(assignment)
        assignment.save()


def active(caller: Caller, pool: Pool, **changes: Any) -> Reservation:
    """A reservation that its node has bound."""
    made = look(reservation(caller, pool, **changes))
    assert made.state == "binding", made.state
    report(made, ReportedState.BOUND)
    return look(made)


def _bound(assignment: Assignment) -> Mapping[str, Any]:
    return {
        "cdiDevices": [f"bcd.dev/gpu={device}" for device in assignment.device_ids],
        "envFile": f"/run/bcd/allocations/{assignment.allocation_id}.env",
    }


def _at_once(outcome: Outcome) -> bool:
    return isinstance(outcome, At) and outcome.instant <= clock.now()
