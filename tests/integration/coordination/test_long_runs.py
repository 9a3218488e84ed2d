"""Work that takes longer than every time-out, and messages that come twice: the effect comes once.

Elsewhere a task longer than the broker's visibility time-out runs twice. Here a message carries no
work, a claim is of a shard that one process leads, and only that process commits.
"""

from collections.abc import Callable

import pytest

from bettercompute.coordination import owner, tasks, worker, workqueue
from bettercompute.coordination.fencing import Fence
from bettercompute.coordination.models import WorkItem
from bettercompute.coordination.runner import Done, Runner
from bettercompute.coordination.worker import Worker
from outbox import events
from outbox.models import Event
from tests.conftest import SimulatedClock

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.case(34),
    pytest.mark.rule("C26", "C28", "C30"),
]

KEY = "slow"


def effect(fence: Fence) -> None:
    """What must be there once."""
    with fence():
        events.publish(
            "pool.created", tenant_id="ten_x", subject=f"pool/{KEY}", data={"poolId": KEY}
        )


def effects() -> int:
    return Event.objects.filter(subject=f"pool/{KEY}").count()


def slow(meanwhile: Callable[[], None]) -> Callable[[str, Fence], Done]:
    """A reconciler that takes its time before it writes."""

    def reconcile(key: str, fence: Fence) -> Done:
        meanwhile()
        effect(fence)
        return Done()

    return reconcile


def as_another_process(action: Callable[[], object]) -> object:
    before, owner.OWNER = owner.OWNER, "own_another"
    try:
        return action()
    finally:
        owner.OWNER = before


def quick(key: str, fence: Fence) -> Done:
    effect(fence)
    return Done()


def test_a_run_longer_than_its_claim_is_nobody_elses_while_its_lease_is_kept(
    clock: SimulatedClock,
) -> None:
    others: list[int] = []

    def take_minutes() -> None:
        for _ in range(5 * workqueue.CLAIM_SECONDS // 5):
            clock.advance("5s")
            runner.holdings.refresh()  # as the pulse's thread does
        (item,) = WorkItem.objects.all()
        assert item.claimed_until < clock.now(), "the claim itself has lapsed"
        others.append(runner.drain())  # another thread of this process
        others.append(as_another_process(lambda: Runner({"node": quick}).drain()))

    runner = Runner({"node": slow(take_minutes)})
    workqueue.enqueue("node", KEY)

    assert runner.run_once()

    assert others == [0, 0]
    assert effects() == 1
    assert not WorkItem.objects.exists()


def test_a_run_that_outlives_its_lease_leaves_the_work_to_its_successor(
    clock: SimulatedClock,
) -> None:
    others: list[object] = []

    def be_suspended() -> None:
        clock.advance("5m")
        others.append(as_another_process(lambda: Runner({"node": quick}).drain()))

    runner = Runner({"node": slow(be_suspended)})
    workqueue.enqueue("node", KEY)

    runner.run_once()

    assert others == [1]
    assert effects() == 1, "whoever woke up late wrote nothing"
    assert not WorkItem.objects.exists()
    assert runner.lease_of(KEY) is None


def test_a_message_that_comes_many_times_or_never_changes_nothing(
    clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = Worker({"node": quick}, {})
    monkeypatch.setattr(worker, "current", lambda: ours)
    tasks.look.run()  # nothing to do yet
    workqueue.enqueue("node", KEY)

    for _ in range(5):
        tasks.look.run()

    assert effects() == 1
    workqueue.enqueue("node", KEY)  # and the message about this one is lost
    clock.advance("1s")
    tasks.tick.run()
    assert effects() == 2
