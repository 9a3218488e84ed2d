"""REST of pools, quotas and the preview (A4, A5)."""

import json
from datetime import timedelta

import pytest

from bettercompute.iam import policies
from bettercompute.iam.policies import Draft
from nodes import bookings, eligibility
from nodes.models import Node
from pools import catalogue
from pools.models import Pool
from tests.support import cast, make, supply

COMMITS = pytest.mark.django_db(transaction=True)  # admission's transactions are durable
pytestmark = [pytest.mark.django_db, pytest.mark.rule("A4")]

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NO_READING = """
@id("no-reading")
@message("No looking at pools.")
forbid (principal, action == Action::"compute:pools:read", resource);
"""


@pytest.fixture
def pool() -> Pool:
    return make.pool(nodes=1, gpus=4, maxAhead="365d")


def answer(response) -> dict:
    assert response.status_code == 200, response.content
    return json.loads(response.content)


def reservation(pool: Pool, **changes):
    return make.reservation(cast.caller("alice"), pool, **changes)


@COMMITS
def test_a_pool_says_what_it_has_what_is_free_and_when_more_will_be(pool, clock):
    reservation(pool, gpus=1, duration="2h")
    reservation(pool, gpus=1, duration="5h")
    reservation(pool, gpus=1, start=clock.now_ms() + 24 * HOUR_MS)  # takes nothing today
    found = answer(cast.api("bob").get(f"/pools/{pool.pk}"))
    assert found["devices"] == [
        {"class": "gpu", "model": "H100", "profile": None, "memoryGiB": 80, "total": 4, "free": 2}
    ]
    assert (found["total"], found["free"], found["nodes"], found["owned"]) == (4, 2, 1, True)
    assert found["nextFreeAt"] == clock.now_ms() + 2 * HOUR_MS
    assert found["limits"] == {
        "maxAheadMs": 365 * DAY_MS,
        "maxDurationMs": None,
        "kubernetes": False,
    }


def test_what_cannot_be_placed_on_is_not_counted(pool):
    eligibility.cordon(Node.objects.get(pool=pool).pk)
    found = answer(cast.api("alice").get(f"/pools/{pool.pk}"))
    assert (found["total"], found["free"], found["nodes"], found["devices"]) == (0, 0, 1, [])


@pytest.mark.rule("R15")
def test_how_free_devices_lie_together(pool):
    made = Node.objects.get(pool=pool)
    halved, cordoned, serviced = (supply.node(pool, gpus=4) for _ in range(3))
    eligibility.cordon(cordoned.pk)
    eligibility.quarantine(supply.devices(serviced)[0], reason="test")
    bookings.book(allocation_id="alloc_a", device_ids=supply.devices(halved)[:3], **supply.window())
    later = supply.window(timedelta(hours=5))
    bookings.book(allocation_id="alloc_b", device_ids=supply.devices(made)[:1], **later)
    found = answer(cast.api("alice").get(f"/pools/{pool.pk}/fragmentation"))
    whole = len(supply.devices(made))
    (kind,) = found["kinds"]
    assert (found["poolId"], kind["class"], kind["model"]) == (pool.pk, "gpu", "H100")
    assert (kind["total"], kind["free"]) == (whole + 4 + 3, whole + 1 + 3)
    assert (kind["largestBlock"], kind["wholeNodes"], kind["inWholeNodes"]) == (whole, 2, whole + 3)
    assert {"size": 2, "requests": whole // 2 + 1} in kind["blocks"]
    assert 0 < kind["fragmentationMilli"] < 1_000


def test_the_list_has_what_the_tenant_may_book(pool):
    mallory = cast.api("mallory")
    assert answer(mallory.get("/pools")) == {"items": [], "nextCursor": None}
    cast.problem(mallory.get(f"/pools/{pool.pk}"), 404, "NOT_FOUND")
    catalogue.offer(pool, cast.tenant("globex"))
    (item,) = answer(mallory.get("/pools"))["items"]
    assert (item["id"], item["owned"]) == (pool.pk, False)
    assert item == answer(mallory.get(f"/pools/{pool.pk}"))


@pytest.mark.rule("R38")
def test_another_tenants_id_in_the_query_is_not_found(pool):
    acme = cast.tenant().pk
    for path in (
        "/pools",
        f"/pools/{pool.pk}",
        f"/pools/{pool.pk}/timeline",
        f"/pools/{pool.pk}/fragmentation",
        "/quotas",
    ):
        cast.problem(cast.api("mallory").get(f"{path}?tenantId={acme}"), 404, "NOT_FOUND")
    body = {
        "tenantId": acme,
        "poolId": pool.pk,
        "devices": [{"class": "gpu", "count": 1}],
        "duration": "1h",
    }
    cast.problem(cast.api("mallory").post("/capacity/preview", body), 404, "NOT_FOUND")


@pytest.mark.rule("R38")
def test_a_policy_may_hide_pools(pool):
    draft = Draft(name="hidden", text=NO_READING)
    policies.create(cast.caller("alice"), draft=draft, platform=False)
    bob = cast.api("bob")
    assert answer(bob.get("/pools"))["items"] == []
    for path in (
        f"/pools/{pool.pk}",
        f"/pools/{pool.pk}/timeline",
        f"/pools/{pool.pk}/fragmentation",
    ):
        problem = cast.problem(bob.get(path), 403, "ACCESS_DENIED")
        assert "No looking at pools." in problem["detail"]


@COMMITS
@pytest.mark.rule("R38")
def test_the_timeline_names_ones_own_reservations_and_nobody_elses(pool, clock):
    catalogue.offer(pool, cast.tenant("globex"))
    make.grant("globex", gpus=8)
    ours = reservation(pool, gpus=1, duration="2h")
    make.reservation(cast.caller("mallory"), pool, gpus=2, duration="3h")
    now = clock.now_ms()

    def booked(name: str) -> dict:
        found = answer(cast.api(name).get(f"/pools/{pool.pk}/timeline"))
        shown = [b for device in found["devices"] for b in device["bookings"]]
        return {
            (booking["start"] - now, booking["end"] - now, booking["reservationId"]): 1
            for booking in shown
        }

    assert booked("alice") == {(0, 2 * HOUR_MS, ours.pk): 1, (0, 3 * HOUR_MS, None): 1}
    theirs = {key[2] for key in booked("mallory")}
    assert ours.pk not in theirs
    assert None in theirs


def test_the_timelines_capacity_follows_the_bookings(pool, clock):
    now = clock.now_ms()
    (node,) = Node.objects.filter(pool=pool)
    one, other, *_ = supply.devices(node)
    bookings.book(allocation_id="alloc_a", device_ids=[one], **supply.window(hours=2))
    bookings.book(
        allocation_id="alloc_b", device_ids=[one], **supply.window(timedelta(hours=2), hours=1)
    )
    bookings.book(
        allocation_id="alloc_c", device_ids=[other], **supply.window(timedelta(hours=1), hours=9)
    )
    eligibility.quarantine(supply.devices(node)[3], reason="test")
    path = f"/pools/{pool.pk}/timeline?from={now}&to={now + 5 * HOUR_MS}"
    found = answer(cast.api("alice").get(path))
    assert [(s["at"] - now, s["free"]) for s in found["capacity"]] == [
        (0, 2),
        (HOUR_MS, 1),
        (3 * HOUR_MS, 2),
    ], "adjacent bookings leave no gap"
    assert (found["from"], found["to"]) == (now, now + 5 * HOUR_MS)
    assert [device["usable"] for device in found["devices"]].count(False) == 1


@COMMITS
@pytest.mark.rule("N18")
def test_the_timeline_tells_of_maintenance_and_counts_nothing_free_meanwhile(pool, clock):
    catalogue.offer(pool, cast.tenant("globex"))
    now = clock.now_ms()
    node = Node.objects.get(pool=pool)
    one, *_ = supply.devices(node)
    bookings.book(allocation_id="alloc_a", device_ids=[one], **supply.window(hours=2))
    alice = cast.api("alice")
    work = {"start": now + HOUR_MS, "end": now + 3 * HOUR_MS, "reason": "new fans"}
    for path in (f"/nodes/{node.pk}/maintenance", f"/pools/{pool.pk}/maintenance"):
        assert alice.post(path, work).status_code == 201
    window = f"from={now}&to={now + 5 * HOUR_MS}"
    for reader in (alice, cast.api("mallory")):  # whoever may book there
        found = answer(reader.get(f"/pools/{pool.pk}/timeline?{window}"))
        assert [(w["node"], w["start"] - now, w["reason"]) for w in found["maintenance"]] == [
            (node.name, HOUR_MS, "new fans"),
            (None, HOUR_MS, "new fans"),
        ]
        assert [(s["at"] - now, s["free"]) for s in found["capacity"]] == [
            (0, 3),
            (HOUR_MS, 0),
            (3 * HOUR_MS, 4),
        ], "what is booked and worked on is missing once"
    elsewhere = f"from={now + 4 * HOUR_MS}&to={now + 5 * HOUR_MS}"
    assert answer(alice.get(f"/pools/{pool.pk}/timeline?{elsewhere}"))["maintenance"] == []


@pytest.mark.rule("A5")
@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("from=5&to=5", "to"),
        ("from=5&to=4", "to"),
        (f"from=0&to={93 * DAY_MS}", "to"),
        ("from=yesterday", "from"),
        ("to=-1", "to"),
        ("from=253402300799999", "to"),
        ("from=253402300800000", "from"),
        ("until=5", "until"),
        ("from=1&from=2", "from"),
    ],
)
def test_a_window_that_is_none_names_the_parameter(pool, query, field):
    response = cast.api("alice").get(f"/pools/{pool.pk}/timeline?{query}")
    problem = cast.problem(response, 400, "INVALID_INPUT")
    assert [error["path"] for error in problem["details"]["errors"]] == [field]


@COMMITS
def test_quotas_are_listed_with_what_is_used(pool):
    reservation(pool, gpus=3)
    items = answer(cast.api("bob").get("/quotas"))["items"]
    assert {item["resource"]: item["used"] for item in items} == {
        "gpuMilli": 3_000,
        "memoryGiB": 0,
        "vcpu": 0,
    }
    assert answer(cast.api("mallory").get("/quotas"))["items"] == []


@pytest.mark.rule("R20")
def test_the_preview_is_always_200_for_a_valid_body(pool):
    body = {
        "tenantId": cast.tenant().pk,
        "poolId": pool.pk,
        "duration": "1h",
        "devices": [{"class": "gpu", "count": 4}],
        "idempotencyKey": "ignored",
    }
    alice = cast.api("alice")
    found = answer(alice.post("/capacity/preview", body))
    fields = ("fits", "nodes", "quote", "quotaAfter", "reasons", "earliest", "preempts")
    assert set(found) == {*fields, "occurrences", "needsConfirmation"}
    assert (found["fits"], found["quote"]["gpuHours"]) == (True, 4.0)
    body["devices"][0]["count"] = 5
    (reason,) = answer(alice.post("/capacity/preview", body))["reasons"]
    assert reason["filter"] == "class"
    body["devices"][0]["topolgy"] = "any"
    problem = cast.problem(alice.post("/capacity/preview", body), 400, "INVALID_INPUT")
    assert problem["details"]["errors"][0]["path"] == "devices[0].topolgy"


@pytest.mark.parametrize("path", ["/pools", "/quotas"])
def test_a_get_that_the_client_has_is_not_sent_again(pool, path):
    alice = cast.api("alice")
    etag = alice.get(path)["ETag"]
    assert alice.get(path, If_None_Match=etag).status_code == 304
