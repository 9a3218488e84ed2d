"""Trace contexts: what is read, what is kept, and that every line of log has them."""

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from bettercompute.telemetry import tracing
from bettercompute.telemetry.tracing import Context, Kind

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"
HEADER = f"00-{TRACE}-{SPAN}-01"


def test_a_traceparent_names_its_place() -> None:
    found = tracing.read(f" {HEADER} ")
    assert found == Context(TRACE, SPAN, "01")
    assert found.traceparent == HEADER


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "00",
        HEADER.upper(),
        HEADER.replace("00-", "ff-", 1),
        HEADER + "-more",  # version 00 has four parts
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}\n-{SPAN}-01",
    ],
)
def test_what_is_no_traceparent_begins_a_new_trace(header: str | None) -> None:
    assert tracing.read(header) is None


def test_a_later_version_may_say_more() -> None:
    assert tracing.read(HEADER.replace("00-", "cc-", 1) + "-more") == Context(TRACE, SPAN, "01")


@given(st.text(max_size=80))
def test_no_text_raises(text: str) -> None:
    tracing.read(text)
    tracing.from_origin(text)


def test_work_goes_on_in_the_trace_it_came_from() -> None:
    structlog.contextvars.clear_contextvars()  # whatever another test left in this thread
    with tracing.entered(
        "request", kind=Kind.SERVER, parent=tracing.read(HEADER), request_id="req_1"
    ):
        kept = tracing.origin()
    assert tracing.current() is None
    with tracing.entered("work", kind=Kind.CONSUMER, parent=tracing.from_origin(kept)):
        here = tracing.current()
        assert here is not None
        assert (here.trace_id, here.request_id, here.flags) == (TRACE, "req_1", "01")
        assert here.span_id not in {SPAN, (kept or "").split("-")[2]}  # each has its own
        assert structlog.contextvars.get_contextvars() == {
            "trace_id": TRACE,
            "request_id": "req_1",
        }
    assert structlog.contextvars.get_contextvars() == {}


def test_what_begins_without_a_trace_has_one_of_its_own() -> None:
    seen = set()
    for _ in range(2):
        with tracing.entered("work", kind=Kind.CONSUMER):
            seen.add(tracing.traceparent())
    assert len(seen) == 2
    assert None not in seen


def test_long_after_its_request_work_is_a_trace_of_its_own() -> None:
    old = Context(TRACE, SPAN, began_ms=1)
    with tracing.entered("work", kind=Kind.CONSUMER, parent=old):
        assert tracing.origin() is None


def test_outside_of_any_work_nothing_is_kept() -> None:
    assert tracing.origin() is None
    assert tracing.traceparent() is None
    with tracing.span("inside of nothing") as span:
        assert span is tracing.UNRECORDED
