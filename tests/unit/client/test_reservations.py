"""What the client does with reservations."""

import json
from typing import Any

import pytest

from bettercompute.client import capacity, failures, reservations
from bettercompute.client.calls import Answer, Lost
from bettercompute.states import ReservationState
from bettercompute.wire.reservations import DeviceClass, DeviceLine, Reservation, ReservationRequest
from tests.support import answers
from tests.support.flows import Driver

RESET = Lost("connection reset", sent=True)
FIELDS: Any = {"pool_id": "pool_main", "devices": [{"class": "gpu", "count": 4}], "duration": "8h"}


def driver(*outcomes: Answer | Lost, tenant: str | None = "ten_acme", **options: Any) -> Driver:
    return Driver(outcomes, tenant=tenant, **options)


def shown(state: str, **changes: Any) -> Answer:
    return answers.answer(answers.reservation(state, **changes))


def parsed(state: str, **changes: Any) -> Reservation:
    return Reservation.model_validate_json(json.dumps(answers.reservation(state, **changes)))


def bodies(driver: Driver) -> list[dict[str, Any]]:
    return [json.loads(call.body) for call in driver.calls if call.body]


class TestCreate:
    def test_its_fields_go_out_in_the_words_of_the_wire(self) -> None:
        acting = driver(shown("placed"))
        acting.run(
            reservations.create(
                acting.api, **FIELDS, lease_seconds=60, spot=True, idempotency_key="mine"
            )
        )
        assert bodies(acting) == [
            {
                "tenantId": "ten_acme",
                "poolId": "pool_main",
                "devices": [{"class": "gpu", "count": 4}],
                "duration": "8h",
                "leaseSeconds": 60,
                "spot": True,
                "idempotencyKey": "mine",
            }
        ]
        assert acting.calls[0].path == "/api/v1/reservations"

    def test_models_of_the_wire_do_as_well(self) -> None:
        acting = driver(shown("placed"))
        line = DeviceLine(device_class=DeviceClass.GPU, count=4)
        acting.run(
            reservations.create(acting.api, pool_id="pool_main", devices=[line], duration=3_600_000)
        )
        assert bodies(acting)[0]["devices"] == [{"class": "gpu", "count": 4}]

    def test_a_whole_request_goes_out_as_it_is(self) -> None:
        request = ReservationRequest.model_validate_json(
            '{"tenantId": "ten_other", "poolId": "p", "devices": [{"class": "gpu", "count": 1}],'
            ' "duration": "1h", "idempotencyKey": "its-own"}'
        )
        acting = driver(shown("placed"))
        acting.run(reservations.create(acting.api, request))
        body = bodies(acting)[0]
        assert body["tenantId"] == "ten_other"
        assert body["idempotencyKey"] == "its-own"
        ReservationRequest.model_validate_json(json.dumps(body))

    def test_a_whole_request_and_fields_do_not_go_together(self) -> None:
        request = ReservationRequest.model_validate_json(
            '{"tenantId": "t", "poolId": "p", "devices": [{"class": "gpu", "count": 1}],'
            ' "duration": "1h"}'
        )
        acting = driver()
        with pytest.raises(TypeError):
            acting.run(reservations.create(acting.api, request, duration="8h"))

    def test_the_keywords_are_the_fields_of_the_wire(self) -> None:
        handled_apart = {"tenant_id", "idempotency_key", "wait"}
        assert set(reservations.RequestFields.__annotations__) == (
            set(ReservationRequest.model_fields) - handled_apart
        )

    @pytest.mark.rule("A8")
    @pytest.mark.rule("R8")
    def test_every_retry_of_one_intent_has_the_same_key(self) -> None:
        acting = driver(RESET, Answer(502, {}, b""), shown("placed"))
        acting.run(reservations.create(acting.api, **FIELDS))
        sent = bodies(acting)
        assert len(sent) == 3
        assert sent[0] == sent[1] == sent[2]
        assert len(sent[0]["idempotencyKey"]) >= 32

    def test_another_intent_has_another_key(self) -> None:
        acting = driver(shown("placed"), shown("placed"))
        acting.run(reservations.create(acting.api, **FIELDS))
        acting.run(reservations.create(acting.api, **FIELDS))
        first, second = bodies(acting)
        assert first["idempotencyKey"] != second["idempotencyKey"]

    def test_its_error_has_the_key_to_go_on_with(self) -> None:
        acting = Driver([RESET] * 9, tenant="ten_acme")
        with pytest.raises(failures.Unreachable) as raised:
            acting.run(reservations.create(acting.api, **FIELDS))
        assert raised.value.idempotency_key == bodies(acting)[0]["idempotencyKey"]

    @pytest.mark.rule("R14")
    @pytest.mark.parametrize(("asked", "sent_ms"), [(20, 20_000), (0, 0), (90, 30_000)])
    def test_a_wait_is_asked_for_up_to_what_the_server_holds(
        self, asked: float, sent_ms: int
    ) -> None:
        acting = driver(shown("placed"))
        acting.run(reservations.create(acting.api, **FIELDS, wait_seconds=asked))
        assert bodies(acting)[0]["wait"] == {"timeoutMs": sent_ms}
        assert acting.sent[0].seconds >= sent_ms / 1_000 + 1


class TestTenant:
    def test_the_only_tenant_is_found_once(self) -> None:
        acting = driver(
            answers.answer(answers.whoami()), shown("placed"), shown("released"), tenant=None
        )
        acting.run(reservations.create(acting.api, **FIELDS))
        acting.run(reservations.release(acting.api, "rsv_first"))
        assert [call.path for call in acting.calls] == [
            "/api/v1/whoami",
            "/api/v1/reservations",
            "/api/v1/reservations/rsv_first/release",
        ]
        assert [body["tenantId"] for body in bodies(acting)] == ["ten_acme", "ten_acme"]

    def test_a_short_name_is_looked_up(self) -> None:
        acting = driver(
            answers.answer(answers.whoami("acme", "globex")), shown("released"), tenant="globex"
        )
        acting.run(reservations.release(acting.api, "rsv_first"))
        assert bodies(acting) == [{"tenantId": "ten_globex"}]

    @pytest.mark.parametrize("tenant", [None, "initech"])
    def test_several_or_a_foreign_tenant_is_an_error_that_says_which_there_are(
        self, tenant: str | None
    ) -> None:
        acting = driver(answers.answer(answers.whoami("acme", "globex")), tenant=tenant)
        with pytest.raises(failures.InvalidInput, match="acme, globex"):
            acting.run(reservations.release(acting.api, "rsv_first"))

    def test_a_read_needs_no_look_up(self) -> None:
        acting = driver(shown("active"), tenant=None)
        acting.run(reservations.get(acting.api, "rsv_first"))
        assert acting.calls[0].query == ()


class TestEnding:
    @pytest.mark.parametrize("verb", [reservations.release, reservations.cancel])
    def test_it_is_repeated_when_the_answer_is_lost(self, verb: Any) -> None:
        acting = driver(RESET, shown("cancelled"))
        assert acting.run(verb(acting.api, "rsv_first")).state is ReservationState.CANCELLED

    def test_a_version_is_sent_and_keeps_it_from_being_repeated(self) -> None:
        acting = driver(RESET)
        with pytest.raises(failures.Unreachable):
            acting.run(reservations.release(acting.api, "rsv_first", version=3))
        assert ("If-Match", '"3"') in acting.calls[0].headers

    def test_a_cancel_whose_answer_was_lost_is_no_error(self) -> None:
        acting = driver(RESET, answers.refusal(409, "INVALID_STATE"), shown("cancelled"))
        found = acting.run(reservations.cancel(acting.api, "rsv_first"))
        assert found.state is ReservationState.CANCELLED

    def test_a_cancel_that_somebody_else_made_impossible_is_one(self) -> None:
        acting = driver(RESET, answers.refusal(409, "INVALID_STATE"), shown("active"))
        with pytest.raises(failures.InvalidState):
            acting.run(reservations.cancel(acting.api, "rsv_first"))

    def test_a_cancel_refused_at_once_is_one_without_another_look(self) -> None:
        acting = driver(answers.refusal(409, "INVALID_STATE"))
        with pytest.raises(failures.InvalidState):
            acting.run(reservations.cancel(acting.api, "rsv_first"))
        assert len(acting.sent) == 1


class TestWaiting:
    def test_it_polls_until_placing_is_over(self) -> None:
        acting = driver(shown("pending"), shown("pending"), shown("placed"))
        found = acting.run(
            reservations.wait_until_placed(acting.api, parsed("pending"), seconds=20)
        )
        assert found.state is ReservationState.PLACED
        assert acting.pauses == [0.1, 0.2, 0.4]

    def test_what_is_placed_already_is_not_asked_for(self) -> None:
        acting = driver()
        acting.run(reservations.wait_until_placed(acting.api, parsed("placed"), seconds=20))
        assert acting.sent == []

    def test_a_failure_ends_the_wait_too(self) -> None:
        acting = driver(shown("failed"))
        found = acting.run(
            reservations.wait_until_active(acting.api, parsed("binding"), seconds=20)
        )
        assert found.state is ReservationState.FAILED

    def test_the_deadline_raises_with_what_was_last_seen(self) -> None:
        acting = Driver(lambda _: shown("pending", version=9), tenant="ten_acme")
        begun = acting.now
        with pytest.raises(failures.WaitTimedOut) as raised:
            acting.run(reservations.wait_until_placed(acting.api, parsed("pending"), seconds=5))
        assert raised.value.reservation.version == 9
        assert acting.now - begun == pytest.approx(5)
        assert max(acting.pauses) <= reservations.POLL_SECONDS_MAX

    def test_a_server_that_restarts_meanwhile_does_not_end_it(self) -> None:
        outage = [Lost("connection refused", sent=False)] * 12
        acting = driver(*outage, shown("active"))
        found = acting.run(
            reservations.wait_until_active(acting.api, parsed("binding"), seconds=60)
        )
        assert found.state is ReservationState.ACTIVE

    def test_one_that_vanishes_does(self) -> None:
        acting = driver(answers.refusal(404, "NOT_FOUND"))
        with pytest.raises(failures.NotFound):
            acting.run(reservations.wait_until_active(acting.api, parsed("binding"), seconds=60))


class TestPages:
    def test_a_page_that_is_its_own_next_one_ends_the_list(self) -> None:
        endless = answers.answer({"items": [], "nextCursor": "rsv_again"})
        acting = driver(endless, endless)
        page = reservations.pages(acting.api)
        assert acting.run(page(None)) == ([], "rsv_again")
        with pytest.raises(failures.UnexpectedAnswer):
            acting.run(page("rsv_again"))

    def test_filters_go_with_every_page_and_the_cursor_with_the_next(self) -> None:
        first = answers.answer({"items": [answers.reservation()], "nextCursor": "rsv_first"})
        last = answers.answer({"items": [], "nextCursor": None})
        acting = driver(first, last)
        page = reservations.pages(
            acting.api, scope="all", states=["active", "placed"], pool_id="pool_main", page_size=1
        )
        items, cursor = acting.run(page(None))
        assert ([item.id for item in items], cursor) == (["rsv_first"], "rsv_first")
        assert acting.run(page(cursor)) == ([], None)
        filters = [
            ("scope", "all"),
            ("limit", "1"),
            ("state", "active"),
            ("state", "placed"),
            ("poolId", "pool_main"),
        ]
        assert sorted(acting.calls[0].query) == sorted([("tenantId", "ten_acme"), *filters])
        assert sorted(acting.calls[1].query) == sorted(
            [("tenantId", "ten_acme"), ("cursor", "rsv_first"), *filters]
        )


def test_a_preview_asks_with_the_body_of_a_create() -> None:
    acting = driver(RESET, answers.answer(answers.preview()))
    assert acting.run(capacity.preview(acting.api, **FIELDS)).fits
    assert acting.calls[1].path == "/api/v1/capacity/preview"
    ReservationRequest.model_validate_json(acting.calls[1].body or b"")


class TestExtending:
    def test_one_call_is_one_intent_whose_key_goes_with_every_retry(self) -> None:
        answered = answers.answer({"reservation": answers.reservation(), "extended": True})
        acting = driver(RESET, answered)
        made = acting.run(reservations.extend(acting.api, "rsv_first", by="4h"))
        assert made.extended
        first, second = bodies(acting)
        assert first == second
        assert first["by"] == "4h"
        assert "until" not in first

    def test_an_error_says_under_which_key_to_go_on(self) -> None:
        acting = driver(answers.refusal(409, "CONFLICT", "under way", reason="extend-in-flight"))
        with pytest.raises(failures.Conflict) as refused:
            acting.run(reservations.extend(acting.api, "rsv_first", until=1, idempotency_key="k"))
        assert refused.value.idempotency_key == "k"

    def test_how_far_it_could_go(self) -> None:
        acting = driver(answers.answer({"availableUntil": None}))
        found = acting.run(reservations.available_until(acting.api, "rsv_first"))
        assert found.available_until is None
        assert acting.calls[0].path == "/api/v1/reservations/rsv_first/extension"
