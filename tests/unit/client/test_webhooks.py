"""Webhooks in the client: what is sent of a change, and how long a test is waited for."""

import json

import pytest

from bettercompute.client import webhooks
from bettercompute.client.flows import Api, Flow, Send
from outbox.webhooks.sending import Limits

pytestmark = pytest.mark.rule("A9")


def _first(flow: Flow[object]) -> Send:
    step = next(flow)
    assert isinstance(step, Send)
    return step


def _api() -> Api:
    return Api(timeout_seconds=30.0, tenant_id="ten_acme")


def test_a_test_is_waited_for_as_long_as_a_receiver_may_take() -> None:
    assert _first(webhooks.test(_api(), "whk_1")).seconds >= Limits().total_seconds + 5


def test_a_change_says_nothing_of_what_stays() -> None:
    flow = webhooks.update(_api(), "whk_1", event_types=[], enabled=False, version=3)
    call = _first(flow).call
    assert call.body is not None
    assert json.loads(call.body) == {"tenantId": "ten_acme", "eventTypes": [], "enabled": False}
    assert ("If-Match", '"3"') in call.headers
    assert not call.repeatable  # the version would be another one by then


def test_a_span_is_sent_in_the_words_of_the_wire() -> None:
    flow = webhooks.redeliver_range(_api(), "whk_1", start_ms=5, end_ms=9, everything=True)
    body = _first(flow).call.body
    assert body is not None
    assert json.loads(body) == {"tenantId": "ten_acme", "from": 5, "to": 9, "which": "all"}
