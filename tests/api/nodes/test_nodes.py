"""Stories of the API: nodes, for operators and owners of pools (A4, N18)."""

from datetime import timedelta

import pytest

from bettercompute import clock as clock_module
from nodes import assignments, eligibility
from nodes.assignments import PlannedAssignment
from nodes.models import Node
from outbox.models import Event
from tests.support import cast, supply

pytestmark = [pytest.mark.django_db, pytest.mark.rule("A4")]


@pytest.fixture
def node() -> Node:
    """A node of acme's, with two GPUs; globex has one too."""
    supply.node(supply.pool(owner="globex"), gpus=1)
    return supply.node(supply.pool(owner="acme"), gpus=2)


def test_owners_see_their_nodes_and_operators_see_all(node: Node) -> None:
    page = cast.api("alice").get("/nodes").json()
    assert [item["id"] for item in page["items"]] == [node.pk]
    assert page["nextCursor"] is None
    (item,) = page["items"]
    assert (item["eligible"], item["bookableDevices"], item["healthyDevices"]) == (True, 2, 2)
    assert len(cast.api("olga").get("/nodes").json()["items"]) == 2


def test_a_node_is_shown_with_devices_resources_and_conditions(node: Node) -> None:
    shown = cast.api("alice").get(f"/nodes/{node.pk}").json()
    assert [device["id"] for device in shown["devices"]] == supply.devices(node)
    assert {device["memoryMiB"] for device in shown["devices"]} == {81_559}
    assert {each["resource"]: each["allocatable"] for each in shown["resources"]} == {
        "memoryGiB": 2048,
        "vcpu": 192,
    }
    assert (shown["conditionDetails"], shown["lastSeen"]) == ([], None)


@pytest.mark.rule("R38")
def test_a_node_of_somebody_else_is_not_found_by_any_route(node: Node) -> None:
    mallory = cast.api("mallory")
    cast.problem(mallory.get(f"/nodes/{node.pk}"), 404, "NOT_FOUND")
    for verb in ("cordon", "uncordon"):
        cast.problem(mallory.post(f"/nodes/{node.pk}/{verb}"), 404, "NOT_FOUND")
    pool = f"/nodes?poolId={node.pool_id}"
    assert mallory.get(pool).json()["items"] == []
    node.refresh_from_db()
    assert not node.cordoned


@pytest.mark.rule("R38")
def test_a_member_of_the_owner_does_not_operate_its_nodes(node: Node) -> None:
    bob = cast.api("bob")
    cast.problem(bob.get("/nodes"), 403, "ACCESS_DENIED")
    cast.problem(bob.post(f"/nodes/{node.pk}/cordon"), 403, "ACCESS_DENIED")
    node.refresh_from_db()
    assert not node.cordoned


@pytest.mark.rule("N18")
def test_a_cordon_says_first_what_it_leaves_and_is_undone_by_an_uncordon(node: Node) -> None:
    until = clock_module.now() + timedelta(hours=1)
    planned = PlannedAssignment("alloc_a", "rsv_a", node.pk, supply.devices(node), until)
    assignments.plan([planned])
    alice, path = cast.api("alice"), f"/nodes/{node.pk}"

    said = alice.post(f"{path}/cordon", {"preview": True}).json()
    assert said["applied"] is False
    assert said["effect"] == {
        "allocations": 1,
        "devices": 2,
        "lastEnd": clock_module.to_ms(until),
    }
    assert said["node"]["cordoned"] is False

    done = alice.post(f"{path}/cordon")
    assert (done.status_code, done["ETag"]) == (200, '"2"')
    assert (done.json()["node"]["cordoned"], done.json()["node"]["eligible"]) == (True, False)
    again = alice.post(f"{path}/cordon")
    assert again["ETag"] == '"2"', "the second changes nothing"
    assert alice.post(f"{path}/uncordon").json()["node"]["eligible"] is True
    assert Event.objects.filter(type__in=["node.cordoned", "node.uncordoned"]).count() == 2


@pytest.mark.rule("C2")
def test_a_stale_if_match_is_refused_with_the_current_version(node: Node) -> None:
    alice = cast.api("alice")
    eligibility.set_labels(node.pk, {"rack": "7"})
    response = alice.post(f"/nodes/{node.pk}/cordon", If_Match='"1"')
    document = cast.problem(response, 412, "PRECONDITION_FAILED")
    assert document["details"]["version"] == 2
    assert alice.post(f"/nodes/{node.pk}/cordon", If_Match='"2"').status_code == 200


@pytest.mark.rule("A5")
def test_pages_follow_each_other_without_gap_or_repeat() -> None:
    pool = supply.pool()
    made = {supply.node(pool, gpus=1).pk for _ in range(5)}
    alice = cast.api("alice")
    seen: list[str] = []
    cursor = ""
    while True:
        page = alice.get(f"/nodes?limit=2{cursor}").json()
        seen += [item["id"] for item in page["items"]]
        if page["nextCursor"] is None:
            break
        cursor = f"&cursor={page['nextCursor']}"
    assert len(seen) == 5
    assert set(seen) == made


@pytest.mark.rule("A5")
@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("state=broken", "state"),
        ("cursor=abc", "cursor"),
        ("colour=red", "colour"),
    ],
)
def test_a_bad_query_names_its_parameter(query: str, path: str) -> None:
    document = cast.problem(cast.api("alice").get(f"/nodes?{query}"), 400, "INVALID_INPUT")
    assert [each["path"] for each in document["details"]["errors"]] == [path]


@pytest.mark.rule("A3")
def test_a_bad_body_changes_nothing(node: Node) -> None:
    alice = cast.api("alice")
    for body in ({"preview": "yes"}, {"force": True}, []):
        response = alice.post(f"/nodes/{node.pk}/cordon", body)
        cast.problem(response, 400, "INVALID_INPUT")
    node.refresh_from_db()
    assert node.version == 1


@pytest.mark.rule("A2")
def test_without_a_token_there_is_nothing_to_see(node: Node) -> None:
    cast.problem(cast.api(None).get(f"/nodes/{node.pk}"), 401, "UNAUTHENTICATED")
