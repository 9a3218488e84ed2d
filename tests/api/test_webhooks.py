"""Webhooks over REST: made, changed, tried, resent and ended; by whom (A4, A6)."""

from collections import Counter
from datetime import timedelta

import pytest

from bettercompute.audit.models import Entry
from outbox.models import Event, WebhookDelivery, WebhookEndpoint
from outbox.webhooks import endpoints, resending
from tests.support import cast
from tests.support.receivers import receiver
from tests.support.webhooks import dispatched, endpoint, publish, send, send_until_quiet

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("A4", "A6")]

DAY_MS = 86_400_000


@pytest.fixture
def door():
    with receiver() as running:
        yield running


@pytest.fixture
def acme():
    return cast.tenant().pk


def make(api, door, tenant, **more):
    answer = api.post("/webhooks", {"tenantId": tenant, "url": door.url, **more})
    assert answer.status_code == 201, answer.content
    assert answer["Location"] == f"/api/v1/webhooks/{answer.json()['id']}"
    return answer.json()


def test_the_secret_is_shown_once_and_kept_encrypted(door, acme):
    api = cast.api("alice")
    made = make(api, door, acme, eventTypes=["reservation.*"], description="chat")
    assert made["secret"].startswith("whsec_")
    path = f"/webhooks/{made['id']}"
    for answer in (api.get(path), api.get("/webhooks"), api.get(f"{path}/deliveries")):
        assert answer.status_code == 200
        assert b"whsec_" not in answer.content
    assert made["secret"] not in WebhookEndpoint.objects.get().secret
    rotated = api.post(f"{path}/rotate-secret", {"tenantId": acme}, If_Match='"1"').json()
    assert rotated["secret"] not in {made["secret"], ""}
    assert rotated["previousSecretUntil"] is not None
    again = api.post(f"{path}/rotate-secret", {"tenantId": acme}, If_Match='"1"')
    cast.problem(again, 412, "PRECONDITION_FAILED")
    leaked = api.post(f"{path}/rotate-secret", {"tenantId": acme, "expirePrevious": True}).json()
    assert (leaked["previousSecretUntil"], leaked["formerSecrets"]) == (None, [])


def test_former_secrets_are_few_and_none_is_ended_but_by_request(clock, door, acme):
    api = cast.api("alice")
    path = f"/webhooks/{make(api, door, acme)['id']}"
    ends = []
    for _ in range(3):
        rotated = api.post(f"{path}/rotate-secret", {"tenantId": acme}).json()
        ends.insert(0, clock.now_ms() + DAY_MS)
        assert rotated["formerSecrets"] == [{"until": end} for end in ends]
        assert rotated["previousSecretUntil"] == ends[0]
        clock.advance("1h")
    before = api.get(path).json()
    refused = api.post(f"{path}/rotate-secret", {"tenantId": acme})
    details = cast.problem(refused, 409, "INVALID_STATE")["details"]
    assert (details["most"], details["until"]) == (3, ends[-1])
    assert api.get(path).json() == before
    clock.advance("21h")  # the first one's day is over
    assert api.get(path).json()["formerSecrets"] == before["formerSecrets"][:2]
    again = api.post(f"{path}/rotate-secret", {"tenantId": acme}).json()
    assert [each["until"] for each in again["formerSecrets"]] == [
        clock.now_ms() + DAY_MS,
        *ends[:2],
    ]
    leaked = api.post(f"{path}/rotate-secret", {"tenantId": acme, "expirePrevious": True}).json()
    assert (leaked["previousSecretUntil"], leaked["formerSecrets"]) == (None, [])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("url", "http://169.254.169.254/latest"),
        ("url", "https://10.0.0.7/"),
        ("url", "ftp://hooks.example.com/"),
        ("eventTypes[1]", ["pool.created", "pool.exploded"]),
        ("eventTypes[0]", ["*"]),
        ("eventTypes[0]", ["planet.*"]),
        ("subject", "reservation"),
        ("description", "x" * 201),
    ],
)
def test_what_is_wrong_is_named_when_it_is_made_and_when_it_is_changed(door, acme, field, value):
    api = cast.api("alice")
    made = make(api, door, acme)
    body = {"tenantId": acme, field.partition("[")[0]: value}
    for answer in (
        api.post("/webhooks", {"url": door.url, **body}),
        api.send("PATCH", f"/webhooks/{made['id']}", body),
    ):
        problem = cast.problem(answer, 400, "INVALID_INPUT")
        assert field in [error["path"] for error in problem["details"]["errors"]]


def test_a_change_says_only_what_changes(door, acme):
    api = cast.api("alice")
    made = make(api, door, acme, eventTypes=["pool.created"], description="chat")
    path = f"/webhooks/{made['id']}"
    changed = api.send("PATCH", path, {"tenantId": acme, "subject": "pool/*"}).json()
    assert (changed["subject"], changed["description"]) == ("pool/*", "chat")
    assert (changed["eventTypes"], changed["state"]) == (["pool.created"], "enabled")
    part = {"tenantId": acme, "subject": "device/GPU-3b61/m0-1g.10gb"}
    assert api.send("PATCH", path, part).json()["subject"] == part["subject"]
    off = api.send("PATCH", path, {"tenantId": acme, "enabled": False}).json()
    assert (off["state"], off["disabledReason"]) == ("disabled", "request")
    same = api.send("PATCH", path, {"tenantId": acme, "enabled": False}).json()
    assert same["version"] == off["version"]
    on = api.send("PATCH", path, {"tenantId": acme, "enabled": True}).json()
    assert (on["state"], on["disabledReason"], on["disabledAt"]) == ("enabled", None, None)


def test_a_test_is_sent_at_once_also_to_a_disabled_one_and_shows_what_came_of_it(door, acme):
    api = cast.api("alice")
    made = make(api, door, acme, enabled=False)
    path = f"/webhooks/{made['id']}"
    tried = api.post(f"{path}/test", {"tenantId": acme}).json()
    assert (tried["state"], tried["eventType"], tried["test"]) == (
        "delivered",
        "webhook.test",
        True,
    )
    (message,) = door.messages
    assert message.body.decode() == tried["body"]
    assert tried["tries"][0]["responseStatus"] == 200
    assert tried["tries"][0]["responseHead"] == "thanks"
    door.answers(500, b"no")
    failed = api.post(f"{path}/test", {"tenantId": acme}).json()
    assert (failed["state"], failed["tries"][0]["retryAt"]) == ("failed", None)
    assert "500" in failed["tries"][0]["error"]
    shown = api.get(path).json()
    assert (shown["failingSince"], shown["state"]) == (None, "disabled")  # a test judges nothing


def test_tests_hold_a_bounded_number_of_threads(door, acme, monkeypatch):
    api = cast.api("alice")
    made = make(api, door, acme)
    held = [resending._places.acquire(blocking=False) for _ in range(resending.TESTS_MAX)]
    try:
        busy = api.post(f"/webhooks/{made['id']}/test", {"tenantId": acme})
        cast.problem(busy, 503, "UNAVAILABLE")
        assert busy["Retry-After"]
    finally:
        for _ in held:
            resending._places.release()
    assert api.post(f"/webhooks/{made['id']}/test", {"tenantId": acme}).status_code == 200


def test_deliveries_are_listed_by_state_event_and_page(door, acme):
    api = cast.api("alice")
    made = make(api, door, acme)
    path = f"/webhooks/{made['id']}/deliveries"
    for kind in ("pool.created", "pool.changed", "quota.changed"):
        publish(kind=kind)
    dispatched()
    everything = api.get(path).json()["items"]
    assert [each["eventType"] for each in everything] == [
        "quota.changed",
        "pool.changed",
        "pool.created",
    ]
    first = api.get(f"{path}?limit=2").json()
    rest = api.get(f"{path}?limit=2&cursor={first['nextCursor']}").json()
    assert first["items"] + rest["items"] == everything
    assert rest["nextCursor"] is None
    event = everything[1]["eventId"]
    assert api.get(f"{path}?eventId={event}").json()["items"] == [everything[1]]
    assert len(api.get(f"{path}?eventType=pool.created").json()["items"]) == 1
    send()
    publish()
    dispatched()
    assert len(api.get(f"{path}?state=delivered").json()["items"]) == 3
    assert len(api.get(f"{path}?state=pending&state=failed").json()["items"]) == 1


def test_what_failed_is_sent_again_by_request_with_the_same_id(clock, door, acme):
    api = cast.api("alice")
    made = make(api, door, acme)
    path = f"/webhooks/{made['id']}"
    door.answers(500)
    publish()
    dispatched()
    send()
    WebhookDelivery.objects.update(status="failed", finished_at=clock.now())
    (row,) = api.get(f"{path}/deliveries?state=failed").json()["items"]
    door.answers(200)
    again = api.post(f"{path}/deliveries/{row['id']}/redeliver", {"tenantId": acme}).json()
    assert (again["state"], again["attempts"]) == ("pending", 1)
    clock.advance("1m")
    send()
    shown = api.get(f"{path}/deliveries/{row['id']}").json()
    assert (shown["state"], shown["attempts"]) == ("delivered", 2)
    assert [each["responseStatus"] for each in shown["tries"]] == [500, 200]
    assert len(set(door.ids)) == 1
    # Delivered ones may be wanted again as well.
    assert api.post(f"{path}/deliveries/{row['id']}/redeliver", {"tenantId": acme}).json()[
        "state"
    ] == ("pending")


def test_a_span_is_sent_again_what_failed_or_all_of_it_and_a_bounded_number(
    clock, door, acme, monkeypatch
):
    monkeypatch.setattr(resending, "RANGE_MAX", 2)
    api = cast.api("alice")
    made = make(api, door, acme)
    begin = clock.now_ms()
    for _ in range(4):
        clock.advance("1s")
        publish()
    dispatched()
    rows = list(WebhookDelivery.objects.order_by("id"))
    for row, status in zip(rows, ("failed", "delivered", "failed", "failed"), strict=True):
        WebhookDelivery.objects.filter(pk=row.pk).update(status=status, finished_at=clock.now())

    def ask(**more):
        span = {"tenantId": acme, "from": begin, "to": clock.now_ms(), **more}
        return api.post(f"/webhooks/{made['id']}/redeliver", span)

    first = ask().json()  # the fourth is not before `to`
    assert (first["count"], first["more"]) == (2, True)
    pending = WebhookDelivery.objects.filter(status="pending").order_by("id")
    assert [row.pk for row in pending] == [rows[0].pk, rows[2].pk]
    nothing = {"count": 0, "more": False, "nextCursor": None}
    assert ask().json() == ask(cursor=first["nextCursor"]).json() == nothing
    # They failed once more, and wait for their next try.
    WebhookDelivery.objects.filter(pk__in=[rows[0].pk, rows[2].pk]).update(
        attempts=1, next_at=clock.now() + timedelta(hours=5)
    )
    assert ask().json()["count"] == 2
    assert not WebhookDelivery.objects.filter(next_at__gt=clock.now()).exists()
    cast.problem(ask(cursor="other"), 400, "INVALID_INPUT")
    problem = cast.problem(ask(to=begin), 400, "INVALID_INPUT")
    assert problem["details"]["errors"][0]["path"] == "to"
    api.send("PATCH", f"/webhooks/{made['id']}", {"tenantId": acme, "enabled": False})
    cast.problem(ask(), 409, "INVALID_STATE")


@pytest.mark.rule("A6")
def test_each_act_on_a_webhook_is_one_entry_and_its_state_an_event(door, acme):
    api = cast.api("alice")
    path = f"/webhooks/{make(api, door, acme)['id']}"

    def change(**body):
        return api.send("PATCH", path, {"tenantId": acme, **body})

    acts = {
        "webhook.disabled": change(enabled=False),
        "webhook.enabled": change(enabled=True, description="to the chat"),
        "": change(enabled=True),
        "webhook.deleted": api.send("DELETE", f"{path}?tenantId={acme}"),
    }
    for published, answer in acts.items():
        told = Entry.objects.get(request_id=answer["X-Request-Id"])
        assert told.action == f"compute:webhooks:{'delete' if 'deleted' in published else 'update'}"
        assert told.detail.get("events", []) == ([published] if published else [])
    changed = Entry.objects.get(request_id=acts["webhook.enabled"]["X-Request-Id"])
    assert (changed.detail["changed"], changed.detail["enabled"]) == (["description"], True)
    happened = Event.objects.filter(type__startswith="webhook.").order_by("seq")
    assert [event.type for event in happened] == [name for name in acts if name]


def test_what_waits_for_its_next_try_is_sent_at_once_to_another_address_or_when_enabled(
    clock, door, acme
):
    api = cast.api("alice")
    made = make(api, door, acme, eventTypes=["pool.*"])
    path = f"/webhooks/{made['id']}"
    publish()
    dispatched()
    door.answers(500)
    for wanted in ({"url": f"{door.url}new"}, {"enabled": False}, {"enabled": True}):
        send()
        api.send("PATCH", path, {"tenantId": acme, **wanted})
        row = WebhookDelivery.objects.get()
        assert (row.next_at, row.attempts_before) == (clock.now(), row.attempts)
    assert row.attempts == 2
    api.send("PATCH", path, {"tenantId": acme, "description": "to the chat"})
    send()
    api.send("PATCH", path, {"tenantId": acme, "description": "to nobody", "enabled": True})
    assert WebhookDelivery.objects.get().next_at > clock.now()


def test_all_of_a_span_is_sent_again_once_however_many_calls_it_takes(
    clock, door, acme, monkeypatch
):
    """What was delivered is delivered again before the next call: that goes on behind it."""
    monkeypatch.setattr(resending, "RANGE_MAX", 2)
    api = cast.api("alice")
    made = make(api, door, acme)
    begin = clock.now_ms()
    for _ in range(5):
        publish()
    clock.advance("1s")
    dispatched()
    send_until_quiet()
    counts, cursor = [], {}
    while cursor is not None:
        span = {"tenantId": acme, "from": begin, "to": clock.now_ms(), "which": "all", **cursor}
        done = api.post(f"/webhooks/{made['id']}/redeliver", span).json()
        counts.append(done["count"])
        send_until_quiet()
        cursor = {"cursor": done["nextCursor"]} if done["more"] else None
        assert len(counts) < 5
    assert counts == [2, 2, 1]
    assert set(Counter(door.ids).values()) == {2}


def test_the_deleted_is_not_found_by_anything_and_takes_its_secrets_along(door, acme):
    api = cast.api("alice")
    made = make(api, door, acme)
    path = f"/webhooks/{made['id']}"
    api.post(f"{path}/rotate-secret", {"tenantId": acme})
    deleted = api.raw("DELETE", f"{path}?tenantId={acme}", "", If_Match='"2"')
    assert deleted.status_code == 204
    cast.problem(api.get(path), 404, "NOT_FOUND")
    cast.problem(api.post(f"{path}/test", {"tenantId": acme}), 404, "NOT_FOUND")
    assert api.get("/webhooks").json()["items"] == []
    stored = WebhookEndpoint.objects.get()
    assert (stored.secret, stored.former_secrets, stored.former_until) == ("", [], [])


@pytest.mark.rule("R38")
def test_members_manage_their_own_and_read_all_of_the_tenants_and_admins_manage_all(door, acme):
    bob, carol, alice = (cast.api(name) for name in ("bob", "carol", "alice"))
    made = make(bob, door, acme)
    path = f"/webhooks/{made['id']}"
    assert carol.get(path).status_code == 200
    for answer in (
        carol.send("PATCH", path, {"tenantId": acme, "description": "mine"}),
        carol.post(f"{path}/rotate-secret", {"tenantId": acme}),
        carol.post(f"{path}/test", {"tenantId": acme}),
        carol.raw("DELETE", f"{path}?tenantId={acme}", ""),
    ):
        cast.problem(answer, 403, "ACCESS_DENIED")
    assert alice.send("PATCH", path, {"tenantId": acme, "description": "x"}).status_code == 200
    assert door.messages == []


@pytest.mark.rule("R38")
def test_the_platforms_are_the_operators_alone(door, acme):
    body = {"tenantId": acme, "scope": "platform", "url": door.url}
    cast.problem(cast.api("alice").post("/webhooks", body), 403, "ACCESS_DENIED")
    cast.problem(cast.api("alice").get("/webhooks?scope=platform"), 403, "ACCESS_DENIED")
    olga = cast.api("olga")
    home = cast.tenant("platform").pk
    made = make(olga, door, home, scope="platform")
    assert made["tenantId"] is None
    assert [each["id"] for each in olga.get("/webhooks?scope=platform").json()["items"]] == [
        made["id"]
    ]
    assert olga.get("/webhooks").json()["items"] == []
    cast.problem(cast.api("alice").get(f"/webhooks/{made['id']}"), 404, "NOT_FOUND")


def test_a_tenant_has_a_bounded_number(door, acme, monkeypatch):
    monkeypatch.setattr(endpoints, "ENDPOINTS_MAX", 1)
    endpoint(door)
    answer = cast.api("alice").post("/webhooks", {"tenantId": acme, "url": door.url})
    assert cast.problem(answer, 409, "CONFLICT")["details"]["most"] == 1
    assert (
        cast.api("mallory")
        .post("/webhooks", {"tenantId": cast.tenant("globex").pk, "url": door.url})
        .status_code
        == 201
    )
