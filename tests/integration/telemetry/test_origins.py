"""A trace goes with the rows that its work leaves behind."""

from collections.abc import Callable
from datetime import timedelta

import pytest
import structlog

from bettercompute import clock
from bettercompute.coordination import workqueue
from bettercompute.coordination.fencing import Fence
from bettercompute.coordination.models import WorkItem
from bettercompute.coordination.runner import At, Done, Outcome, Runner
from bettercompute.telemetry import tracing
from bettercompute.telemetry.tracing import Context, Kind
from outbox import catalog, events, reader

pytestmark = pytest.mark.django_db

ALICE = Context("a" * 32, "1" * 16, "01", "req_alice")
BOB = Context("b" * 32, "2" * 16, "00", "req_bob")


def _ask(who: Context | None, key: str = "node_a") -> None:
    """Somebody's request, or a periodic job, wakes a key."""
    if who is None:
        workqueue.enqueue("node", key)
        return
    with tracing.entered("request", kind=Kind.SERVER, parent=who, request_id=who.request_id):
        workqueue.enqueue("node", key)


def _runs(outcome: Callable[[], Outcome] = Done) -> list[dict[str, str]]:
    """Run what is due; answers what the logs of each run say."""
    seen: list[dict[str, str]] = []

    def reconcile(key: str, fence: Fence) -> Outcome:
        known = structlog.contextvars.get_contextvars()
        seen.append({name: known.get(name, "") for name in ("trace_id", "request_id", "key")})
        return outcome()

    Runner({"node": reconcile}).run_once()
    return seen


def test_a_worker_goes_on_in_the_trace_of_the_request() -> None:
    _ask(ALICE)
    assert _runs() == [{"trace_id": ALICE.trace_id, "request_id": "req_alice", "key": "node_a"}]


def test_of_two_requests_the_last_counts_and_what_has_none_changes_nothing() -> None:
    _ask(ALICE)
    _ask(BOB)
    _ask(None)
    assert [run["trace_id"] for run in _runs()] == [BOB.trace_id]


def test_what_is_due_again_soon_is_still_the_same_work() -> None:
    _ask(ALICE)
    soon = clock.now() + timedelta(seconds=30)
    _runs(lambda: At(soon))
    kept = tracing.from_origin(WorkItem.objects.get().origin)
    assert kept is not None
    assert (kept.trace_id, kept.request_id) == (ALICE.trace_id, "req_alice")
    assert kept.span_id != ALICE.span_id  # the run's, not the request's


def test_what_is_due_hours_later_is_work_of_its_own() -> None:
    _ask(ALICE)
    later = clock.now() + timedelta(hours=2)
    _runs(lambda: At(later))
    assert WorkItem.objects.get().origin is None


@pytest.mark.django_db(transaction=True)
def test_an_event_says_which_request_it_came_from() -> None:
    with tracing.entered("request", kind=Kind.SERVER, parent=ALICE, request_id="req_alice"):
        _publish()
    _publish()
    first, second = reader.read(reader.START, limit=10)
    kept = tracing.from_origin(first.origin)
    assert kept is not None
    assert (kept.trace_id, kept.request_id) == (ALICE.trace_id, "req_alice")
    assert second.origin is None


def _publish() -> None:
    kind = catalog.TYPES[0]
    events.publish(kind.name, tenant_id="ten_a", subject="thing/a", data=kind.example)
