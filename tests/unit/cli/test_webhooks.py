"""`webhooks …` against a scripted server."""

import json
from typing import Any

import pytest

from bettercompute.cli import webhooks
from bettercompute.cli.exits import Exit
from bettercompute.wire.webhooks import Attempt, Delivery, DeliveryWithAttempts, Webhook
from tests.support import answers
from tests.support.answers import HOUR_MS, NOW_MS
from tests.unit.cli.conftest import Run, Serve

pytestmark = [pytest.mark.rule("A8"), pytest.mark.rule("A6")]

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ONE = "/webhooks/whk_1"


def webhook(**changes: Any) -> dict[str, Any]:
    made = Webhook(
        id="whk_1",
        tenant_id=answers.TENANT_ID,
        owner_identity_id="usr_alice",
        url="https://hooks.example.com/gpus",
        description="builds",
        event_types=["reservation.*"],
        subject="",
        state="enabled",
        disabled_reason=None,
        disabled_at=None,
        notice=None,
        failing_since=None,
        last_success_at=None,
        previous_secret_until=None,
        former_secrets=[],
        version=3,
        created_at=NOW_MS,
    )
    return {**made.model_dump(by_alias=True, mode="json"), **changes}


def delivery(state: str, **changes: Any) -> dict[str, Any]:
    made = Delivery(
        id="whd_1",
        webhook_id="whk_1",
        event_id="evt_1",
        event_type="reservation.active",
        subject="reservation/rsv_1",
        event_time=NOW_MS,
        test=False,
        state=state,
        attempts=1,
        next_at=NOW_MS + HOUR_MS if state == "pending" else None,
        created_at=NOW_MS,
        finished_at=None,
    )
    return {**made.model_dump(by_alias=True, mode="json"), **changes}


def tried(state: str, *, status: int | None, error: str, answer: str = "") -> dict[str, Any]:
    attempt = Attempt(
        number=1,
        started_at=NOW_MS,
        request_headers={"webhook-id": "evt_1"},
        response_status=status,
        response_head=answer,
        latency_ms=12,
        error=error,
        retry_at=None,
    )
    whole = DeliveryWithAttempts.model_validate(
        {**delivery(state), "body": "{}", "tries": [attempt]}
    )
    return whole.model_dump(by_alias=True, mode="json")


def page(*items: dict[str, Any]) -> Any:
    return answers.answer({"items": list(items), "nextCursor": None})


def test_webhooks_are_listed_with_how_they_fare(run: Run, serve: Serve) -> None:
    serve(
        {
            ("GET", "/webhooks"): page(
                webhook(),
                webhook(id="whk_2", eventTypes=[], failingSince=NOW_MS, lastSuccessAt=NOW_MS),
                webhook(id="whk_3", state="disabled", disabledReason="gone", disabledAt=NOW_MS),
            )
        }
    )
    first, second, third = run("webhooks").out.splitlines()[1:]
    assert first.split()[:5] == [
        "whk_1",
        "enabled",
        "https://hooks.example.com/gpus",
        "reservation.*",
        "none",
    ]
    assert second.split()[1:6] == [
        "failing",
        "https://hooks.example.com/gpus",
        "all",
        "today",
        "10:00",
    ]
    assert third.split()[1] == "disabled"
    assert json.loads(run("webhooks", "list", "--json").out)["items"][2]["disabledReason"] == "gone"


def test_the_secret_is_all_that_a_create_prints(run: Run, serve: Serve) -> None:
    made = answers.answer({**webhook(), "secret": SECRET}, 201)
    server = serve({("POST", "/webhooks"): made})
    arguments = ["--type", "reservation.*", "--type", "node.cordoned", "--description", "builds"]
    result = run("webhooks", "create", "https://hooks.example.com/gpus", *arguments)
    assert result.out == f"{SECRET}\n"
    assert "better-compute webhooks test whk_1" in result.err
    body = server.received[0].body
    assert body["eventTypes"] == ["reservation.*", "node.cordoned"]
    assert (body["scope"], body["enabled"]) == ("tenant", True)
    run("webhooks", "create", "https://hooks.example.com/all", "--platform", "--disabled")
    body = server.received[1].body
    assert (body["scope"], body["enabled"], body["eventTypes"]) == ("platform", False, [])


def test_a_url_that_may_not_be_called_is_said_with_its_field(run: Run, serve: Serve) -> None:
    refusal = answers.refusal(400, "INVALID_INPUT", "url: 127.0.0.1 is a loopback address")
    serve({("POST", "/webhooks"): refusal})
    result = run("webhooks", "create", "https://127.0.0.1/")
    assert result.code != Exit.OK
    assert "127.0.0.1 is a loopback address" in result.err


def test_a_change_names_only_what_changes(run: Run, serve: Serve) -> None:
    server = serve({("PATCH", ONE): answers.answer(webhook(state="disabled", disabledAt=NOW_MS))})
    assert "disabled" in run("webhooks", "update", "whk_1", "--disable").out
    run("webhooks", "update", "whk_1", "--all-types", "--subject", "")
    sent = [{k: v for k, v in each.body.items() if k != "tenantId"} for each in server.received]
    assert sent == [{"enabled": False}, {"eventTypes": [], "subject": ""}]
    assert run("webhooks", "update", "whk_1").code == Exit.USAGE
    both = run("webhooks", "update", "whk_1", "--all-types", "--type", "node.*")
    assert both.code == Exit.USAGE


def test_the_notice_of_a_webhook_is_shown(run: Run, serve: Serve) -> None:
    notice = "It took nothing for three days, so it was disabled."
    found = webhook(state="disabled", disabledAt=NOW_MS, notice=notice, tenantId=None)
    serve({("GET", ONE): answers.answer(found)})
    out = run("webhooks", "whk_1").out
    assert notice in out
    assert "events of all tenants" in out


@pytest.mark.parametrize(
    ("ends", "told"),
    [
        ([NOW_MS], "The one before signs too until today 10:00."),
        (
            [NOW_MS + HOUR_MS, NOW_MS],
            "2 former ones sign too, until today 11:00 and today 10:00.",
        ),
    ],
)
def test_a_rotation_prints_the_new_secret_and_until_when_the_old_ones_sign(
    run: Run, serve: Serve, ends: list[int], told: str
) -> None:
    rotated = webhook(formerSecrets=[{"until": end} for end in ends]) | {"secret": SECRET}
    server = serve({("POST", f"{ONE}/rotate-secret"): answers.answer(rotated)})
    result = run("webhooks", "rotate-secret", "whk_1", "--expire-previous")
    assert result.out == f"{SECRET}\n"
    assert told in result.err
    assert server.received[0].body["expirePrevious"] is True


@pytest.mark.parametrize(
    ("status", "error", "code"), [(200, "", Exit.OK), (503, "Answered 503.", Exit.ERROR)]
)
def test_a_test_exits_by_whether_it_was_taken(
    run: Run, serve: Serve, status: int, error: str, code: Exit
) -> None:
    state = "failed" if error else "delivered"
    done = tried(state, status=status, error=error, answer="so\x1b[31m be it")
    serve({("POST", f"{ONE}/test"): answers.answer(done)})
    result = run("webhooks", "test", "whk_1")
    assert result.code == code
    assert str(status) in result.out
    assert error in result.out
    assert "\x1b" not in result.out  # what a receiver answers cannot steer the terminal


def test_deliveries_are_listed_and_one_shown_with_its_attempts(run: Run, serve: Serve) -> None:
    done = tried("pending", status=None, error="Timed out while connecting.")
    server = serve(
        {
            ("GET", f"{ONE}/deliveries"): page(delivery("failed"), delivery("pending")),
            ("GET", f"{ONE}/deliveries/whd_1"): answers.answer(done),
        }
    )
    listed = run("webhooks", "deliveries", "whk_1", "--state", "failed", "--state", "pending")
    assert [line.split()[1] for line in listed.out.splitlines()] == ["STATE", "failed", "pending"]
    assert "state=failed&state=pending" in server.received[0].path
    shown = run("webhooks", "deliveries", "whk_1", "whd_1").out
    assert "Timed out while connecting." in shown
    assert "today 11:00" in shown


def test_one_is_sent_again_or_what_failed_in_a_span(run: Run, serve: Serve) -> None:
    left = [
        {"count": 1_000, "more": True, "nextCursor": "behind"},
        {"count": 7, "more": False, "nextCursor": None},
    ]
    again = answers.answer(tried("pending", status=500, error="Answered 500."))
    server = serve(
        {
            ("POST", f"{ONE}/deliveries/whd_1/redeliver"): again,
            ("POST", f"{ONE}/redeliver"): lambda _: answers.answer(left.pop(0)),
        }
    )
    assert "pending" in run("webhooks", "redeliver", "whk_1", "whd_1").out
    assert run("webhooks", "redeliver", "whk_1", "--last", "6h").out == "1007 sent again\n"
    body = server.received[-1].body
    assert body["to"] - body["from"] == 6 * HOUR_MS
    assert body["which"] == "failed"
    assert run("webhooks", "redeliver", "whk_1").code == Exit.USAGE
    assert run("webhooks", "redeliver", "whk_1", "whd_1", "--last", "6h").code == Exit.USAGE


def test_all_of_a_span_is_asked_for_behind_what_was_sent_again(run: Run, serve: Serve) -> None:
    left = [
        {"count": 1_000, "more": True, "nextCursor": "behind"},
        {"count": 2, "more": False, "nextCursor": None},
    ]
    server = serve({("POST", f"{ONE}/redeliver"): lambda _: answers.answer(left.pop(0))})
    since, until = "2026-03-01T08:00:00Z", "2026-03-01T09:00:00Z"
    result = run("webhooks", "redeliver", "whk_1", "--from", since, "--to", until, "--all")
    assert [request.body.get("cursor") for request in server.received] == [None, "behind"]
    assert server.received[0].body["which"] == "all"
    assert result.out == "1002 sent again\n"
    assert "There are more" not in result.err


def test_what_is_left_after_many_rounds_is_told(
    run: Run, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "ROUNDS_MAX", 2)
    answer = answers.answer({"count": 1_000, "more": True, "nextCursor": "behind"})
    server = serve({("POST", f"{ONE}/redeliver"): answer})
    result = run("webhooks", "redeliver", "whk_1", "--last", "6h")
    assert len(server.received) == 2
    assert "There are more" in result.err


def test_one_is_deleted(run: Run, serve: Serve) -> None:
    server = serve({("DELETE", ONE): answers.answer(None, 204)})
    assert run("webhooks", "delete", "whk_1").out == "whk_1  deleted\n"
    assert server.received[0].method == "DELETE"
