"""Thousands of rows come due in the same second: none is dropped, whatever happens meanwhile."""

from datetime import timedelta

import pytest

from bettercompute import failpoints
from bettercompute.coordination import checks, owner, workqueue
from bettercompute.coordination.models import WorkItem
from bettercompute.coordination.runner import Done, Runner
from bettercompute.failpoints import Failpoint

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.case(17),
    pytest.mark.rule("C25", "C26", "C27"),
]

ROWS = 2_000
LATER = timedelta(hours=1)


class Killed(BaseException):
    """SIGKILL: nothing is caught, finished or given up."""


def test_every_row_runs_though_one_is_poisoned_and_workers_die(clock, monkeypatch) -> None:
    due = clock.now() + LATER
    workqueue.enqueue_many([("node", f"key-{number}", due) for number in range(ROWS)])
    workqueue.enqueue("node", "poison", not_before=due)
    ran: list[str] = []

    def reconcile(key: str, fence: object) -> Done:
        if key == "poison":
            raise ValueError("never")
        ran.append(key)
        return Done()

    def die() -> None:
        if len(ran) in deaths:
            deaths.remove(len(ran))
            raise Killed

    clock.advance(LATER)
    assert workqueue.lag() == (ROWS + 1, timedelta(0))
    deaths = {ROWS // 4, ROWS // 2}
    failpoints.arm(Failpoint.WORK_RECONCILED, die)
    for name in ("own_first", "own_second"):
        monkeypatch.setattr(owner, "OWNER", name)
        with pytest.raises(Killed):
            Runner({"node": reconcile}).drain(limit=ROWS)
        clock.advance("61s")  # far beyond its leases
        left, worst = workqueue.lag()
        assert left > ROWS // 4
        assert worst >= timedelta(seconds=61)
        assert [finding.check for finding in checks.queue_lag()] == ["queue.lag"]
    monkeypatch.setattr(owner, "OWNER", "own_third")
    Runner({"node": reconcile}).drain(limit=2 * ROWS)

    assert set(ran) == {f"key-{number}" for number in range(ROWS)}
    # Only what a dead worker had committed and not finished ran twice (C28).
    assert len(ran) == ROWS + 2
    (poisoned,) = WorkItem.objects.all()
    assert (poisoned.key, poisoned.last_error) == ("poison", "ValueError: never")
