"""Maintenance over REST: announced, listed, looked at and called off (N18, A4)."""

from typing import Any

import pytest

from bettercompute import clock as clocks
from nodes.models import Node
from pools import catalogue
from tests.support import cast, make

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("N18")]

HOUR_MS = 3_600_000


def body(**changes: Any) -> dict[str, Any]:
    return {"start": clocks.now_ms() + HOUR_MS, "duration": "2h", "reason": "new fans", **changes}


def test_it_is_announced_with_whom_it_meets_and_called_off(clock):
    pool = make.pool(nodes=1)
    node = Node.objects.get(pool=pool)
    catalogue.offer(pool, cast.tenant("globex"))
    make.grant("globex", gpus=8)
    held = make.active(cast.caller("mallory"), pool, duration="4h", gpus=2)
    make.active(cast.caller("alice"), pool, duration="30m")
    alice, path = cast.api("alice"), f"/nodes/{node.pk}/maintenance"
    shown = alice.post(path, body(preview=True)).json()
    assert (shown["maintenance"], shown["applied"]) == (None, False)
    made = alice.post(path, body())
    assert made.status_code == 201, made.content
    told = made.json()
    assert told["affected"] == shown["affected"]
    (affected,) = told["affected"]
    assert affected == {
        "reservationId": held.pk,
        "tenantId": held.tenant_id,
        "tenant": "Globex",
        "ownerIdentityId": held.owner_id,
        "owner": "mallory",
        "state": "active",
        "during": {"start": clocks.to_ms(held.starts_at), "end": clocks.to_ms(held.ends_at)},
        "nodes": [node.name],
        "devices": 2,
    }
    window = told["maintenance"]
    assert (window["state"], window["announcedBy"], window["node"]) == (
        "planned",
        "alice",
        node.name,
    )
    assert alice.post(path, body()).status_code == 200, "once"

    details = alice.get(f"/maintenance/{window['id']}")
    assert details.json()["affected"] == [affected]
    cancelled = alice.post(f"/maintenance/{window['id']}/cancel", {}, If_Match=details["ETag"])
    assert cancelled.json()["maintenance"]["state"] == "cancelled"
    assert alice.get(path).json()["items"] == []


def test_whoever_may_book_the_pool_sees_when_but_not_who_planned_it(clock):
    pool = make.pool(nodes=1)
    catalogue.offer(pool, cast.tenant("globex"))
    alice, mallory = cast.api("alice"), cast.api("mallory")
    alice.post(f"/pools/{pool.pk}/maintenance", body())
    (own,) = alice.get(f"/pools/{pool.pk}/maintenance").json()["items"]
    (theirs,) = mallory.get(f"/pools/{pool.pk}/maintenance").json()["items"]
    assert (own["announcedBy"], theirs["announcedBy"]) == ("alice", None)
    assert theirs["reason"] == "new fans"
    cast.problem(mallory.get(f"/maintenance/{own['id']}"), 404, "NOT_FOUND")
    cast.problem(mallory.post(f"/pools/{pool.pk}/maintenance", body()), 404, "NOT_FOUND")
    cast.problem(
        cast.api("bob").post(f"/pools/{pool.pk}/maintenance", body()), 403, "ACCESS_DENIED"
    )
    olga = cast.api("olga").post(f"/pools/{pool.pk}/maintenance", body(reason="network"))
    assert olga.status_code == 201, "who runs the platform may, too"


@pytest.mark.parametrize(
    ("changes", "paths"),
    [
        ({"duration": None}, ["end", "duration"]),
        ({"end": 1}, ["end", "duration"]),
        ({"duration": "soon"}, ["duration"]),
        ({"duration": "2y"}, ["duration"]),
        ({"start": "tomorrow"}, ["start"]),
        ({"start": 0}, ["end"]),
        ({"duration": None, "end": 1}, ["end"]),
        ({"start": 7_000_000_000_000}, ["start"]),
        ({"reason": " "}, ["reason"]),
        ({"reason": ""}, ["reason"]),
    ],
)
def test_what_no_maintenance_can_be_is_named(clock, changes, paths):
    pool = make.pool(nodes=1)
    given = {key: value for key, value in body(**changes).items() if value is not None}
    answer = cast.api("alice").post(f"/pools/{pool.pk}/maintenance", given)
    found = cast.problem(answer, 400, "INVALID_INPUT")["details"]["errors"]
    assert [each["path"] for each in found] == paths
