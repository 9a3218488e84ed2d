"""What a reservation cannot do is refused, and leaves it exactly as it was.

Case 16: elsewhere an invalid update put an active lease into an error state. Here every verb, with
everything that can be wrong about it, is tried on a reservation in every state.
"""

from collections.abc import Callable
from typing import Any

import pytest
from django.http import HttpResponse

from nodes.models import ReportedState
from reservations import ending
from reservations.models import Reservation
from tests.support import cast, invariants, make, routes, valid_requests
from tests.support.cast import Api

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.case(16),
    pytest.mark.rule("R23", "C2"),
]

VERBS = [
    route.template.rpartition("/")[2]
    for route in routes.under("/api/v1/reservations/<str:reservation_id>/")
    if "POST" in route.methods
]
#: What a verb cannot do without.
ASKED = {"extend": {"by": "1h", "idempotencyKey": "longer"}}
#: A member may not end what is another's, and may help it to go on (R38).
OF_OWNERS = {"release", "cancel"}


def ahead(clock: Any) -> Reservation:
    """Placed; it starts in two hours."""
    start = clock.now_ms() + 2 * 3_600_000
    return make.reservation(cast.caller("alice"), make.pool(), start=start, idempotency_key="k")


def waiting(clock: Any) -> Reservation:
    """Pending behind another."""
    pool, alice = make.pool(nodes=1, gpus=1), cast.caller("alice")
    make.reservation(alice, pool)
    return make.reservation(alice, pool, idempotency_key="k")


def binding(clock: Any) -> Reservation:
    """Its node was asked and has not answered."""
    alice = cast.caller("alice")
    return make.look(make.reservation(alice, make.pool(), idempotency_key="k"))


def active(clock: Any) -> Reservation:
    """In use."""
    return make.active(cast.caller("alice"), make.pool(), duration="8h", idempotency_key="k")


def released(clock: Any) -> Reservation:
    """Over, and its node has let go."""
    alice, reservation = cast.caller("alice"), active(clock)
    ending.release(alice, reservation_id=reservation.pk)
    make.report(reservation, ReportedState.RELEASED)
    return make.look(reservation)


STATES: list[Callable[[Any], Reservation]] = [ahead, waiting, binding, active, released]


@pytest.fixture(params=STATES, ids=lambda state: state.__name__)
def reservation(request: pytest.FixtureRequest, clock: Any) -> Reservation:
    """One in each state."""
    made: Reservation = request.param(clock)
    return made


@pytest.fixture
def alice(reservation: Reservation) -> Api:
    """Its owner, whose token has been used before."""
    api = cast.api("alice")
    api.get("/whoami")
    return api


def refused(answer: HttpResponse, *statuses: int) -> None:
    assert answer.status_code in statuses, (answer.status_code, answer.content)
    document = cast.problem(answer, answer.status_code, answer.json()["code"])
    assert document["code"] != "INTERNAL"


def test_there_are_verbs() -> None:
    assert {"release", "cancel"} <= set(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_whatever_is_wrong_with_a_verb_changes_nothing(
    reservation: Reservation, alice: Api, verb: str
) -> None:
    where, asked = f"/reservations/{reservation.pk}/{verb}", ASKED.get(verb, {})
    tenant = {"tenantId": reservation.tenant_id, **asked}
    bob, mallory, nobody = cast.api("bob"), cast.api("mallory"), cast.api(None)
    for api in (bob, mallory):
        api.get("/whoami")
    foreign = {**tenant, "tenantId": cast.tenant("globex").pk}
    before = valid_requests.snapshot()

    for stale in (reservation.version - 1, reservation.version + 1, 0):
        refused(alice.post(where, tenant, If_Match=f'"{stale}"'), 400, 412)
    refused(alice.post(where, tenant, If_Match="x"), 400)
    for body in ({}, [], {**tenant, "state": "failed"}, {"tenantId": 7}, {**tenant, "end": -1}):
        refused(alice.post(where, body), 400)
    refused(alice.raw("POST", where, "{"), 400)
    refused(alice.post(where, foreign), 404)
    refused(mallory.post(where, foreign), 404)
    refused(mallory.post(where, tenant), 404)
    refused(nobody.post(where, tenant), 401)
    if verb in OF_OWNERS:
        refused(bob.post(where, tenant), 403)
    for method in ("PUT", "PATCH", "DELETE"):
        refused(alice.send(method, where, tenant), 405)
        refused(alice.send(method, f"/reservations/{reservation.pk}", tenant), 405)

    assert valid_requests.snapshot() == before


@pytest.mark.parametrize("change", [{"duration": "9h"}, {"devices": []}, {"start": "yesterday"}])
def test_its_key_with_another_body_changes_nothing(
    reservation: Reservation, alice: Api, change: dict[str, Any]
) -> None:
    body = {
        "tenantId": reservation.tenant_id,
        "poolId": reservation.pool_id,
        "devices": [{"class": "gpu", "count": 1}],
        "duration": "1h",
        "idempotencyKey": "k",
    }
    before = valid_requests.snapshot()

    refused(alice.post("/reservations", body | change), 400, 409)

    assert valid_requests.snapshot() == before


def test_what_has_begun_cannot_be_cancelled(clock: Any) -> None:
    reservation, alice = active(clock), cast.api("alice")
    alice.get("/whoami")
    before = valid_requests.snapshot()

    answer = alice.post(
        f"/reservations/{reservation.pk}/cancel", {"tenantId": reservation.tenant_id}
    )

    assert cast.problem(answer, 409, "INVALID_STATE")["details"]["state"] == "active"
    assert valid_requests.snapshot() == before
    assert make.look(reservation).state == "active"
    assert invariants.violations() == []


def test_a_verb_that_breaks_half_way_changes_nothing(
    clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error inside the transaction: 500 to the client, and no state between."""
    reservation, alice = active(clock), cast.api("alice")
    alice.get("/whoami")
    before = valid_requests.snapshot()

    def breaks(*_: object, **__: object) -> None:
        raise RuntimeError("half-way")

    monkeypatch.setattr(ending.assignments, "unwant", breaks)
    where, body = f"/reservations/{reservation.pk}/release", {"tenantId": reservation.tenant_id}
    assert alice.post(where, body).status_code == 500
    assert valid_requests.snapshot() == before

    monkeypatch.undo()
    assert alice.post(where, body).json()["state"] == "released"
