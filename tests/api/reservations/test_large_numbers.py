"""Numbers near the largest the database holds: refused by name, or added up without overflow."""

import json
from typing import Any

import pytest

from bettercompute.wire import reservations as wire
from pools import quota, requests
from pools.models import QuotaUsage
from tests.support import cast, invariants, make, valid_requests

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.case(19),
    pytest.mark.rule("C14", "A5"),
]

LARGEST = 2**63 - 1
TOO_LARGE = [LARGEST, LARGEST + 1, 2**64, 10**30, -LARGEST - 1]


def body(**changes: Any) -> dict[str, Any]:
    return {
        "tenantId": cast.tenant().pk,
        "poolId": "pool",
        "devices": [{"class": "gpu", "count": 1}],
        "duration": "1h",
        **changes,
    }


def line(**changes: Any) -> dict[str, Any]:
    return {"devices": [{"class": "gpu", "count": 1, **changes}]}


FIELDS = {
    "count": lambda n: line(count=n),
    "count of a range": lambda n: line(count={"min": 1, "max": n}),
    "gang": lambda n: {"gang": {"nodes": n}},
    "vcpu": lambda n: {"resources": {"vcpu": n}},
    "memory": lambda n: {"resources": {"memoryGiB": n}},
    "huge pages": lambda n: {"resources": {"hugepages1Gi": n}},
    "lease": lambda n: {"leaseSeconds": n},
    "priority": lambda n: {"priority": n},
    "start": lambda n: {"start": n},
    "duration": lambda n: {"duration": n},
}


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("path", ["/reservations", "/capacity/preview"])
def test_a_number_that_nothing_can_hold_is_refused_by_name(path: str, field: str) -> None:
    pool, alice = make.pool(), cast.api("alice")
    alice.get("/whoami")
    before = valid_requests.snapshot()
    for number in TOO_LARGE:
        answer = alice.post(path, body(poolId=pool.pk, **FIELDS[field](number)))
        document = cast.problem(answer, 400, "INVALID_INPUT")
        assert document["details"]["errors"], (field, number)
    assert valid_requests.snapshot() == before


def test_the_largest_request_that_is_valid_adds_up_far_below() -> None:
    """So no sum of one request overflows, whatever it asks for."""
    largest = body(
        devices=[{"class": "gpu", "count": wire.COUNT_MAX, "topology": "any"}] * 16,
        gang={"nodes": wire.GANG_NODES_MAX},
        duration="1d",
    )
    request = requests.normalise(
        wire.ReservationRequest.model_validate_json(json.dumps(largest)), now_ms=0
    )
    assert request.gpu_milli(replicas=1) * 1_000 < LARGEST


def test_a_quota_as_large_as_can_be_admits_shows_and_gives_back() -> None:
    pool, alice, caller = make.pool(gpus=2), cast.api("alice"), cast.caller("alice")
    for resource in quota.RESOURCES:
        quota.set_max(caller.tenant_id, resource, LARGEST)
    quota.charge(caller.tenant_id, "elsewhere", {"gpuMilli": LARGEST - 1_000})

    made = alice.post("/reservations", body(poolId=pool.pk, idempotencyKey="a"))
    assert made.status_code == 201
    assert QuotaUsage.objects.get(resource="gpuMilli").used == LARGEST
    refused = alice.post("/reservations", body(poolId=pool.pk, idempotencyKey="b"))
    details = cast.problem(refused, 409, "QUOTA_EXCEEDED")["details"]
    assert (details["used"], details["max"], details["asked"]) == (LARGEST, LARGEST, 1_000)
    preview = alice.post("/capacity/preview", body(poolId=pool.pk))
    assert preview.status_code == 200
    shown = alice.get("/quotas").json()["items"]
    assert {"gpuMilli": LARGEST}.items() <= {q["resource"]: q["used"] for q in shown}.items()

    where = f"/reservations/{made.json()['id']}/release"
    assert alice.post(where, {"tenantId": caller.tenant_id}).status_code == 200
    quota.refund("elsewhere")
    assert QuotaUsage.objects.get(resource="gpuMilli").used == 0
    assert invariants.violations() == []
