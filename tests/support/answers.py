"""Answers of the wire for clients under test: made by the wire's own models, sent by no server."""

import json
from typing import Any

from bettercompute.client.calls import Answer
from bettercompute.states import ReservationState
from bettercompute.wire.reservations import Reservation

NOW_MS = 1_772_442_000_000  # 2026-03-02 09:00 UTC, a Monday
HOUR_MS = 3_600_000
TENANT_ID = "ten_acme"
POOL_ID = "pool_main"
RESERVATION_ID = "rsv_first"

_QUOTA = {
    "resource": "gpuMilli",
    "max": 256_000,
    "scope": "tenant",
    "poolId": None,
    "poolOfferId": None,
}
_OPERATIONS = {"pending": "waiting", "failed": "failed", "denied": "failed"}


def reservation(
    state: str = "active", *, operation: str | None = None, **changes: Any
) -> dict[str, Any]:
    """Four GPUs for eight hours, as answered in a state."""
    binding = {
        "nodeId": "node_1",
        "cdiDevices": ["bcd.dev/gpu=GPU-1", "bcd.dev/gpu=GPU-2"],
        "envFile": "/run/bcd/allocations/alloc_1.env",
        "cgroupParent": "bcd-alloc-alloc_1.slice",
        "attested": False,
    }
    bound = state == "active"
    placed = state in {"placed", "binding", "active", "released"}
    allocation = {
        "id": "alloc_1",
        "nodeId": "node_1",
        "node": "gpu-01",
        "deviceIds": ["GPU-1", "GPU-2"],
        "state": "bound" if bound else "placed",
        "binding": binding if bound else None,
    }
    document = {
        "id": RESERVATION_ID,
        "tenantId": TENANT_ID,
        "poolId": POOL_ID,
        "state": state,
        "request": {
            "poolId": POOL_ID,
            "devices": [{"class": "gpu", "count": 2}],
            "duration": f"{8 * HOUR_MS}ms",
            "binding": "hold",
        },
        "during": {"start": NOW_MS, "end": NOW_MS + 8 * HOUR_MS} if placed else None,
        "leaseUntil": None,
        "agent": None,
        "confirmationId": None,
        "users": [],
        "waiting": None,
        "seriesId": None,
        "occurrence": None,
        "ownerIdentityId": "usr_alice",
        "idempotencyKey": "key-1",
        "conditions": [],
        "binding": binding if bound else None,
        "operation": {
            "id": RESERVATION_ID,
            "state": operation or _OPERATIONS.get(state, "succeeded"),
        },
        "version": 3,
        "hostShare": {"vcpu": 48, "memoryGiB": 512},
        "allocations": [allocation] if placed else [],
        "quote": {"gpuHours": 16.0, "price": None, "currency": None},
        "createdAt": NOW_MS,
        "reason": None,
        **changes,
    }
    Reservation.model_validate_json(json.dumps(document))  # a fake that drifts fails here
    assert document["state"] in set(ReservationState)
    return document


def whoami(*slugs: str) -> dict[str, Any]:
    """Alice, with a seat at each tenant; at acme where none is named."""
    return {
        "accountId": "usr_alice",
        "username": "alice",
        "operator": False,
        "timeZone": "Europe/Berlin",
        "tenants": [
            {"id": f"ten_{slug}", "slug": slug, "name": slug.title(), "role": "admin"}
            for slug in slugs or ("acme",)
        ],
        "token": {"id": "tok_1", "name": "cli"},
    }


def members(*names: str) -> dict[str, Any]:
    """Members of the tenant, on one page."""
    found = [{"accountId": f"usr_{name}", "username": name, "role": "member"} for name in names]
    return {"items": found, "nextCursor": None}


def waiting(**changes: Any) -> dict[str, Any]:
    """Second in a line of three, behind one that asks for eight GPUs."""
    busy = {
        "filter": "busy",
        "needs": "2 GPUs free",
        "nodes": 2,
        "samples": ["gpu-01"],
        "until": NOW_MS + HOUR_MS,
    }
    return {
        "position": 2,
        "lineLength": 3,
        "gpusAhead": 8.0,
        "reasons": [busy],
        "testedAt": NOW_MS - HOUR_MS,
        "earliestStart": NOW_MS + 3 * HOUR_MS,
        "earliestTestedAt": NOW_MS - HOUR_MS,
        **changes,
    }


def pool(name: str = "main", **changes: Any) -> dict[str, Any]:
    """A pool of two machines with eight H100s each."""
    return {
        "id": f"pool_{name}",
        "name": name,
        "region": "eu-west",
        "tenantId": TENANT_ID,
        "owned": True,
        "placer": "inline",
        "nodes": 2,
        "devices": [
            {
                "class": "gpu",
                "model": "H100",
                "profile": None,
                "memoryGiB": 80,
                "total": 16,
                "free": 12,
            }
        ],
        "total": 16,
        "free": 12,
        "nextFreeAt": None,
        "limits": {"maxAheadMs": None, "maxDurationMs": None, "kubernetes": False},
        "version": 1,
        **changes,
    }


def preview(**changes: Any) -> dict[str, Any]:
    """It fits on one node."""
    return {
        "fits": True,
        "nodes": [{"nodeId": "node_1", "name": "main-0", "deviceIds": ["GPU-1", "GPU-2"]}],
        "quote": {"gpuHours": 16.0, "price": None, "currency": None},
        "quotaAfter": [{**_QUOTA, "used": 2_000}],
        "reasons": [],
        "earliest": None,
        "preempts": None,
        "needsConfirmation": False,
        "occurrences": None,
        **changes,
    }


def problem(status: int, code: str, detail: str = "told", **details: Any) -> dict[str, Any]:
    """An error as answered (A3)."""
    return {
        "type": f"/docs/errors#{code.lower()}",
        "title": code.title(),
        "status": status,
        "detail": detail,
        "code": code,
        "details": details,
        "requestId": "req_1",
    }


def answer(document: Any, status: int = 200, **headers: str) -> Answer:
    """An answer as a client receives it; ``retry_after`` is the header Retry-After."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, named, json.dumps(document).encode())


def refusal(status: int, code: str, detail: str = "told", **headers: str) -> Answer:
    """A problem as a client receives it."""
    return answer(problem(status, code, detail), status, **headers)
