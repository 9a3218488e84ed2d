"""Reservations over REST: keys and pages."""

from typing import Any

import pytest

from reservations.models import Reservation
from tests.conftest import SimulatedClock
from tests.support import cast, make
from tests.support.cast import Api

pytestmark = pytest.mark.django_db(transaction=True)


def create(api: Api, pool: str, key: str | None = None, **headers: str) -> Any:
    body = {
        "tenantId": cast.tenant().pk,
        "poolId": pool,
        "devices": [{"class": "gpu", "count": 1}],
        "duration": "1h",
    }
    if key is not None:
        body["idempotencyKey"] = key
    return api.post("/reservations", body, **headers)


@pytest.mark.rule("R2", "R8")
def test_the_header_is_the_field_in_any_script() -> None:
    """Header bytes are UTF-8, which WSGI hands over as Latin-1."""
    api, pool, key = cast.api("alice"), make.pool().pk, "schlüssel-钥匙"
    on_the_wire = key.encode().decode("latin-1")

    made = create(api, pool, Idempotency_Key=on_the_wire)
    assert made.status_code == 201
    assert made.json()["idempotencyKey"] == key
    assert create(api, pool, key).status_code == 200
    assert create(api, pool, key, Idempotency_Key=on_the_wire).json()["id"] == made.json()["id"]


@pytest.mark.rule("R2")
def test_a_header_that_is_no_utf_8_is_taken_as_it_is() -> None:
    made = create(cast.api("alice"), make.pool().pk, Idempotency_Key="schl\xfcssel")
    assert made.json()["idempotencyKey"] == "schlüssel"


class TestCursors:
    """A5: only a reservation of the list itself is a cursor of it."""

    @pytest.mark.rule("A5", "R9")
    def test_one_of_another_list_is_refused(self) -> None:
        alice, bob = cast.api("alice"), cast.api("bob")
        pool, other = make.pool(quota_gpus=1), make.pool(quota_gpus=1)
        of_bob = create(bob, pool.pk, "bobs").json()["id"]
        cast.problem(create(alice, pool.pk, "waits"), 409, "QUOTA_EXCEEDED")
        draft = Reservation.objects.get(state="draft").pk

        for query in (
            f"cursor={of_bob}",
            f"scope=all&poolId={other.pk}&cursor={of_bob}",
            f"scope=all&cursor={draft}",
            "cursor=rsv_none",
        ):
            refused = cast.problem(alice.get(f"/reservations?{query}"), 400, "INVALID_INPUT")
            assert [error["path"] for error in refused["details"]["errors"]] == ["cursor"]
        assert alice.get(f"/reservations?scope=all&cursor={of_bob}").status_code == 200

    @pytest.mark.rule("A5", "R37")
    def test_one_that_has_left_its_state_still_is(self, clock: SimulatedClock) -> None:
        alice, pool = cast.api("alice"), make.pool().pk
        older = create(alice, pool, "older").json()["id"]
        clock.advance("1s")
        newer = create(alice, pool, "newer").json()["id"]

        first = alice.get("/reservations?state=placed&limit=1").json()
        assert [item["id"] for item in first["items"]] == [newer]
        alice.post(f"/reservations/{newer}/release", {"tenantId": cast.tenant().pk})
        second = alice.get(f"/reservations?state=placed&cursor={first['nextCursor']}").json()
        assert [item["id"] for item in second["items"]] == [older]
