"""Less is there than is held: what lowers what is held is accepted, what raises it is not."""

import pytest

from bettercompute import clock
from nodes import checks as node_checks
from nodes import inventory
from nodes.models import Node, NodeResource
from pools import quota
from pools.models import QuotaUsage
from reservations.models import Reservation
from tests.support import cast, invariants, make, supply
from tests.support.cast import Api

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.case(25),
    pytest.mark.rule("C12", "C14", "R35"),
]


def release(api: Api, reservation: Reservation) -> str:
    where = f"/reservations/{reservation.pk}/release"
    answer = api.post(where, {"tenantId": reservation.tenant_id})
    assert answer.status_code == 200, answer.content
    state: str = answer.json()["state"]
    return state


def test_a_host_that_lost_cpus_lets_go_one_by_one_and_then_admits_again() -> None:
    pool, alice = make.pool(gpus=4, perGpu={"vcpu": 40, "memoryGiB": 1}), cast.caller("alice")
    api, node = cast.api("alice"), Node.objects.get()
    held = [make.reservation(alice, pool) for _ in range(4)]  # 160 of 192
    assert {reservation.state for reservation in held} == {"placed"}

    inventory.apply(node.pk, supply.host(node.name, gpus=4, vcpu=82))  # 80 are left
    assert node_checks.overcommitted_resources()

    for left, reservation in zip((120, 80, 40), held, strict=False):
        assert release(api, reservation) == "released"
        assert NodeResource.objects.get(node=node, resource="vcpu").allocated == left
        assert invariants.violations() == []
    assert not node_checks.overcommitted_resources()
    assert make.reservation(alice, pool).state == "placed"
    assert make.reservation(alice, pool).state == "pending", "80 are 80"


def test_while_more_is_held_than_there_is_nothing_is_added() -> None:
    pool, alice = make.pool(gpus=4, perGpu={"vcpu": 40, "memoryGiB": 1}), cast.caller("alice")
    node = Node.objects.get()
    held = [make.reservation(alice, pool) for _ in range(3)]
    inventory.apply(node.pk, supply.host(node.name, gpus=4, vcpu=82))

    assert make.reservation(alice, pool).state == "pending"
    release(cast.api("alice"), held[0])  # 80 of 80: lower, and still full
    assert make.reservation(alice, pool).state == "pending"
    assert invariants.violations() == []


def test_a_quota_that_was_cut_below_its_use_lets_go_and_admits_what_fits_again() -> None:
    pool, alice, api = make.pool(gpus=8), cast.caller("alice"), cast.api("alice")
    first, second = (make.reservation(alice, pool, gpus=3) for _ in range(2))

    quota.set_max(alice.tenant_id, "gpuMilli", 2_000)

    body = {
        "tenantId": alice.tenant_id,
        "poolId": pool.pk,
        "devices": [{"class": "gpu", "count": 1}],
        "duration": "1h",
    }
    cast.problem(api.post("/reservations", body | {"idempotencyKey": "a"}), 409, "QUOTA_EXCEEDED")
    assert release(api, first) == "released"
    assert QuotaUsage.objects.get(resource="gpuMilli").used == 3_000
    cast.problem(api.post("/reservations", body | {"idempotencyKey": "b"}), 409, "QUOTA_EXCEEDED")
    assert release(api, second) == "released"
    assert api.post("/reservations", body | {"idempotencyKey": "a"}).status_code == 201
    assert invariants.violations() == []


@pytest.mark.rule("R22", "R33")
def test_what_its_host_cannot_carry_any_longer_is_bounded_by_its_own_end() -> None:
    """Nobody comes next: the host itself has too little to promise more."""
    pool, api = make.pool(gpus=4, perGpu={"vcpu": 40, "memoryGiB": 1}), cast.api("alice")
    node = Node.objects.get()
    held = make.reservation(cast.caller("alice"), pool)
    assert held.ends_at is not None
    end = clock.to_ms(held.ends_at)
    where = f"/reservations/{held.pk}"
    asked = f"{where}/extension?tenantId={held.tenant_id}"
    assert api.get(asked).json() == {"availableUntil": None}

    inventory.apply(node.pk, supply.host(node.name, gpus=4, vcpu=32))  # 30 are left, it has 40
    assert api.get(asked).json() == {"availableUntil": end}
    body = {"tenantId": held.tenant_id, "by": "1h", "idempotencyKey": "longer"}
    made = api.post(f"{where}/extend", body).json()
    assert (made["extended"], made["availableUntil"]) == (False, end)
