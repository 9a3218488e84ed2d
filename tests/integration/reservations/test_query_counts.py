"""How many statements each route sends: growing by accident shows in tests/query_counts.json."""

import pytest

from tests.support import cast, make
from tests.support.query_counts import expected

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def alice():
    """A token that was used already, as any but the first request has it."""
    api = cast.api("alice")
    assert api.get("/whoami").status_code == 200
    return api


def body(pool, **changes):
    return {
        "tenantId": cast.tenant().pk,
        "poolId": pool.pk,
        "devices": [{"class": "gpu", "count": 1}],
        "duration": "1h",
        **changes,
    }


def test_create_get_preview_and_release(alice):
    pool = make.pool(nodes=2)
    with expected("POST /reservations"):
        created = alice.post("/reservations", body(pool, idempotencyKey="k"))
    assert created.status_code == 201
    path = f"/reservations/{created.json()['id']}"
    with expected("POST /reservations, the same again"):
        assert alice.post("/reservations", body(pool, idempotencyKey="k")).status_code == 200
    with expected("GET /reservations/{id}"):
        assert alice.get(path).status_code == 200
    with expected("POST /capacity/preview"):
        assert alice.post("/capacity/preview", body(pool)).status_code == 200
    with expected("POST /reservations/{id}/release"):
        ended = alice.post(f"{path}/release", {"tenantId": cast.tenant().pk})
    assert ended.json()["state"] == "released"


def test_a_list_sends_as_many_however_long_it_is(alice):
    pool = make.pool(nodes=2)
    for length in (1, 5):
        for _ in range(length):
            make.reservation(cast.caller("alice"), pool)
        with expected("GET /reservations"):
            assert alice.get("/reservations?tenantId=" + cast.tenant().pk).status_code == 200
