"""A webhook is sent in the trace of the work that its event came from, and counted."""

from collections.abc import Iterator

import pytest
from django.db import transaction

from bettercompute.telemetry import metrics, tracing
from bettercompute.telemetry.tracing import Context, Kind
from outbox import dispatch, events
from outbox.webhooks import courier, endpoints, gauges, sink
from tests.support import cast, horizon
from tests.support.receivers import Receiver, receiver

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("A6")]

ALICE = Context("a" * 32, "1" * 16, "01", "req_alice")


@pytest.fixture
def door() -> Iterator[Receiver]:
    with receiver() as running:
        yield running


def _count(outcome: str) -> float:
    name = "better_compute_webhook_attempts_total"
    return metrics.REGISTRY.get_sample_value(name, {"outcome": outcome}) or 0.0


def test_the_receiver_is_told_the_trace_of_the_request(door: Receiver) -> None:
    endpoints.create(cast.caller("alice"), endpoints.Draft(door.url))
    delivered, refused = _count("delivered"), _count("status")
    tenant_id = cast.tenant().pk
    with tracing.entered("request", kind=Kind.SERVER, parent=ALICE, request_id="req_alice"):
        events.publish(
            "pool.created", tenant_id=tenant_id, subject="pool/a", data={"poolId": "pool_a"}
        )
    horizon.let_writers_elsewhere_end()
    dispatch.drain("webhooks", sink.QUEUE, fence=transaction.atomic)
    door.answers(500)

    courier.Courier().catch_up()

    (message,) = door.messages
    told = tracing.read(message.headers["traceparent"])
    assert told is not None
    assert (told.trace_id, told.flags) == (ALICE.trace_id, ALICE.flags)
    assert told.span_id != ALICE.span_id
    assert (_count("delivered"), _count("status")) == (delivered, refused + 1)
    (waiting, oldest) = gauges.pending()
    assert sum(waiting.samples.values()) == 1
    assert waiting.samples["due",] == 0
    assert oldest.samples[()] == 0
