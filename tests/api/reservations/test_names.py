"""What people are shown has names beside ids, wherever the answer comes from."""

import pytest

from tests.support import cast, make

pytestmark = [pytest.mark.django_db, pytest.mark.rule("R5")]


def test_a_create_a_get_and_a_list_name_the_same_nodes() -> None:
    pool = make.pool(nodes=2)
    alice = cast.api("alice")
    gang = {"nodes": 2}
    body = {
        "tenantId": pool.tenant_id,
        "poolId": pool.pk,
        "devices": [{"class": "gpu", "count": 1}],
        "duration": "1h",
        "gang": gang,
        "idempotencyKey": "two-nodes",
    }
    created = alice.post("/reservations", body).json()
    nodes = {each["id"]: each["name"] for each in alice.get("/nodes").json()["items"]}
    assert {each["nodeId"]: each["node"] for each in created["allocations"]} == nodes
    got = alice.get(f"/reservations/{created['id']}").json()
    (listed,) = alice.get("/reservations").json()["items"]
    assert got["allocations"] == listed["allocations"] == created["allocations"]
