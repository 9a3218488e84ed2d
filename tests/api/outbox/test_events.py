"""GET /events: what happened, of one's own tenant, filtered, in pages; and one event (A4, A5)."""

import json

import jsonschema
import pytest

from outbox import catalog, events
from outbox.events import NewEvent
from outbox.models import Event
from tests.support import cast

pytestmark = pytest.mark.django_db


def publish(*verbs, slug="acme", subject="reservation/rsv_a"):
    tenant = cast.tenant(slug).pk
    events.publish_many(
        NewEvent(
            f"reservation.{verb}",
            tenant,
            subject,
            dict(catalog.BY_NAME[f"reservation.{verb}"].example),
        )
        for verb in verbs
    )
    committed()


def committed():
    """As if a transaction that has ended had written it: a test's own never does."""
    Event.objects.update(txid=3)


def listed(query="", name="alice"):
    answer = cast.api(name).get(f"/events{query}")
    assert answer.status_code == 200, answer.content
    return answer.json()


def verbs(document):
    return [item["type"].removeprefix("reservation.") for item in document["items"]]


@pytest.mark.rule("A5", "C20")
def test_an_event_is_listed_as_it_was_sent_and_the_newest_first(clock):
    publish("queued")
    clock.advance("1m")
    publish("placed")
    placed, queued = listed()["items"]
    assert placed == {
        "id": placed["id"],
        "type": "reservation.placed",
        "tenantId": cast.tenant().pk,
        "subject": "reservation/rsv_a",
        "data": dict(catalog.BY_NAME["reservation.placed"].example),
        "time": clock.now_ms(),
    }
    assert queued["time"] == clock.now_ms() - 60_000
    assert cast.api("bob").get(f"/events/{placed['id']}").json() == placed


@pytest.mark.rule("A5")
def test_pages_show_every_event_once_whatever_happens_meanwhile():
    publish("queued", "pending", "placed", "binding", "active")
    first = listed("?limit=2")
    publish("released")  # newer than all: on no later page
    second = listed(f"?limit=2&cursor={first['nextCursor']}")
    third = listed(f"?limit=2&cursor={second['nextCursor']}")
    assert verbs(first) + verbs(second) + verbs(third) == [
        "active",
        "binding",
        "placed",
        "pending",
        "queued",
    ]
    assert third["nextCursor"] is None


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("?types=reservation.placed", ["placed"]),
        ("?types=reservation.placed,reservation.active", ["active", "placed"]),
        ("?types=reservation.placed&types=reservation.active", ["active", "placed"]),
        ("?types=reservation.*", ["released", "active", "placed"]),
        ("?types=node.*", []),
        ("?subject=reservation/rsv_b", ["released"]),
        ("?subject=reservation/rsv_b&types=reservation.placed", []),
    ],
)
def test_filters_leave_what_they_say(query, found):
    publish("placed", "active")
    publish("released", subject="reservation/rsv_b")
    assert verbs(listed(query)) == found


def test_times_are_from_and_before(clock):
    first = clock.now_ms()
    publish("queued")
    clock.advance("1h")
    publish("placed")
    hour = 3_600_000
    assert verbs(listed(f"?from={first}&to={first + hour}")) == ["queued"]
    assert verbs(listed(f"?from={first + hour}")) == ["placed"]
    assert verbs(listed(f"?to={first}")) == []


@pytest.mark.rule("A5")
@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("types=reservation.imagined", "types"),
        ("types=reservation.placed,", "types"),
        ("types=reservation", "types"),
        ("types=res*", "types"),
        ("types=imagined.*", "types"),
        ("types=*", "types"),
        ("subject=rsv_a", "subject"),
        ("subject=reservation/*", "subject"),  # that would be types=reservation.*
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("cursor=x", "cursor"),
        ("from=yesterday", "from"),
        ("scope=galaxy", "scope"),
        ("tenant_id=x", "tenant_id"),
        ("after=1-2", "after"),
    ],
)
def test_what_no_list_has_is_refused_by_name(query, path):
    problem = cast.problem(cast.api("alice").get(f"/events?{query}"), 400, "INVALID_INPUT")
    assert [error["path"] for error in problem["details"]["errors"]] == [path]


@pytest.mark.rule("R38")
@pytest.mark.case(24)
def test_another_tenants_events_are_not_there():
    publish("placed")
    (event,) = listed()["items"]
    mallory = cast.api("mallory")
    assert mallory.get("/events").json()["items"] == []
    cast.problem(mallory.get(f"/events?tenantId={cast.tenant().pk}"), 404, "NOT_FOUND")
    cast.problem(mallory.get(f"/events/{event['id']}"), 404, "NOT_FOUND")
    cast.problem(
        mallory.get(f"/events/{event['id']}?tenantId={cast.tenant().pk}"), 404, "NOT_FOUND"
    )


def test_an_operator_reads_all_tenants_events_and_nobody_else_does():
    publish("placed")
    publish("active", slug="globex")
    assert listed(name="olga")["items"] == []  # the platform's own tenant has none
    assert verbs(listed("?scope=platform", name="olga")) == ["active", "placed"]
    (event,) = listed()["items"]
    assert cast.api("olga").get(f"/events/{event['id']}?scope=platform").json() == event
    for path in ("/events?scope=platform", f"/events/{event['id']}?scope=platform"):
        cast.problem(cast.api("alice").get(path), 403, "ACCESS_DENIED")


def test_a_policy_may_forbid_reading_events():
    publish("placed")
    (event,) = listed()["items"]
    saved = cast.api("alice").post(
        "/policies",
        {
            "tenantId": cast.tenant().pk,
            "name": "quiet",
            "text": '@message("Events are for admins.") forbid (principal, action =='
            ' Action::"compute:events:read", resource) when { principal.role != "admin" };',
        },
    )
    assert saved.status_code == 201, saved.content
    assert verbs(listed()) == ["placed"]
    for path in ("/events", f"/events/{event['id']}"):
        problem = cast.problem(cast.api("bob").get(path), 403, "ACCESS_DENIED")
        assert "Events are for admins." in problem["detail"]


@pytest.mark.rule("R25")
def test_every_types_schema_is_one_and_fits_what_is_sent():
    api, tenant = cast.api("alice"), cast.tenant().pk
    for kind in catalog.TYPES:
        example = api.get(f"/events/catalog/{kind.name}").json()["example"]
        data = dict(kind.example)
        events.publish(kind.name, tenant_id=tenant, subject=example["subject"], data=data)
    committed()
    sent = {each["type"]: each for each in listed("?limit=200")["items"]}
    assert set(sent) == set(catalog.BY_NAME)
    for name, event in sent.items():
        check_schema(api.get(f"/events/catalog/{name}").json(), event)


def check_schema(shown, sent):
    """It holds for the example and what was sent, and for nothing that is not like them."""
    schema = shown["schema"]
    jsonschema.Draft202012Validator.check_schema(schema)
    check = jsonschema.Draft202012Validator(schema)
    check.validate(shown["example"])
    check.validate(sent)
    for name in schema["properties"]["data"]["required"]:
        without = {key: value for key, value in sent["data"].items() if key != name}
        assert not check.is_valid({**sent, "data": without}), name
    for wrong in ({"type": "reservation.imagined"}, {"subject": "rack/1"}, {"time": "today"}):
        assert not check.is_valid({**sent, **wrong})
    assert check.is_valid({**sent, "more": 1}), "a later release may say more"
    assert check.is_valid({**sent, "data": {**sent["data"], "more": 1}})


def test_the_catalogue_has_every_type_and_no_other():
    api = cast.api("alice")
    items = api.get("/events/catalog").json()["items"]
    assert [item["type"] for item in items] == [kind.name for kind in catalog.TYPES]
    assert json.dumps(items[0]) == json.dumps(api.get(f"/events/catalog/{items[0]['type']}").json())
    cast.problem(api.get("/events/catalog/reservation.imagined"), 404, "NOT_FOUND")
