"""The control plane was down: what came due meanwhile is made up for, in the order of time (C27).

The worker is the product's own, with every reconciler; its work queue is all that it starts from.
"""

from datetime import timedelta

import pytest

from bettercompute.coordination import workqueue
from bettercompute.coordination.runner import Runner
from bettercompute.wiring import reconcilers
from nodes.models import Node
from outbox.models import Event
from pools.models import QuotaUsage
from reservations.models import Reservation
from tests.support import cast, invariants, make
from tests.support.storm_agents import Agent

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.case(18),
    pytest.mark.rule("C27", "R24"),
]

HOUR_MS = 3_600_000


def told(reservation: Reservation) -> list[str]:
    found = Event.objects.filter(subject=f"reservation/{reservation.pk}").order_by("seq")
    return [event.type.removeprefix("reservation.") for event in found]


def agents() -> list[Agent]:
    """One for each node there is."""
    return [Agent(node.pk) for node in Node.objects.all()]


def settle(runner: Runner, speaking: list[Agent]) -> None:
    """Worker and agents take turns until neither has anything to do."""
    while runner.drain() or any(agent.report(silent=0.0, failing=0.0) for agent in speaking):
        pass


def test_windows_that_passed_end_and_the_one_that_runs_begins(clock) -> None:
    """Three that follow each other on one card; down from the middle of the first."""
    pool, alice, runner = make.pool(nodes=1, gpus=1), cast.caller("alice"), Runner(reconcilers())
    now = clock.now_ms()
    first, second, third = (
        make.reservation(alice, pool, start=now + after * HOUR_MS, duration=f"{hours}h")
        for after, hours in ((0, 1), (1, 1), (2, 8))
    )
    speaking = agents()
    settle(runner, speaking)
    assert Reservation.objects.get(pk=first.pk).state == "active"

    clock.advance("2h30m")
    settle(runner, speaking)

    for reservation in (first, second, third):
        reservation.refresh_from_db()
    assert [first.state, first.reason] == ["released", "expired"]
    assert [second.state, second.reason] == ["released", "expired"]
    assert third.state == "active"
    # Each ended when its window did, whenever somebody came to write it down.
    assert first.ends_at == second.starts_at
    assert second.ends_at == third.starts_at
    assert told(first) == ["placed", "binding", "active", "released"]
    assert told(second) == ["placed", "released"]
    assert told(third) == ["placed", "binding", "active"]
    assert QuotaUsage.objects.get(resource="gpuMilli").used == 1_000
    assert invariants.violations() == []


@pytest.mark.rule("R35", "R17")
def test_nobody_is_moved_because_the_earlier_holder_was_told_late(clock) -> None:
    """The worst order: who begins is looked at first, and the node was never told to let go."""
    pool, alice = make.pool(nodes=1, gpus=1), cast.caller("alice")
    first = make.active(alice, pool, duration="1h")
    start = clock.now_ms() + HOUR_MS
    second = make.reservation(alice, pool, start=start, duration="8h")
    window = (second.starts_at, second.ends_at)
    clock.advance("2h")  # no worker for an hour

    for _ in range(2):
        second = make.look(second)
        assert (second.state, second.starts_at, second.ends_at) == ("binding", *window)
    make.look(first)
    clock.advance("5m")
    assert make.look(second).state == "binding", "the node has half a minute more"
    make.report(first, "released")
    make.look(first)
    make.look(second)
    make.report(second, "bound")
    second = make.look(second)
    assert (second.state, second.starts_at, second.ends_at) == ("active", *window)
    assert invariants.violations() == []


def test_what_came_due_first_is_looked_at_first(clock, monkeypatch) -> None:
    """Across kinds and states, in the order of their moments, whatever the order of creation."""
    # One shard, so that its order is the whole order.
    monkeypatch.setattr(workqueue, "shard_of", lambda key: 0)
    pool, alice = make.pool(nodes=4, gpus=8), cast.caller("alice")
    now, order = clock.now_ms(), [5, 2, 4, 1, 3, 7, 6]
    for hour in order:
        make.reservation(alice, pool, start=now + hour * HOUR_MS, duration="20m")
    Runner(reconcilers()).drain()
    assert not Event.objects.filter(type="reservation.released").exists()

    clock.advance("12h")
    Runner(reconcilers()).drain()

    ended = Event.objects.filter(type="reservation.released").order_by("seq")
    starts = [
        Reservation.objects.get(pk=event.subject.partition("/")[2]).starts_at for event in ended
    ]
    assert len(starts) == len(order)
    assert starts == sorted(starts)


@pytest.mark.rule("R32", "R23")
def test_one_of_every_kind_comes_to_where_it_belongs(clock) -> None:
    """Nothing is stuck in progress, whatever it was doing when everything stopped."""
    pool, alice, runner = make.pool(nodes=6, gpus=1), cast.caller("alice"), Runner(reconcilers())
    now = clock.now_ms()
    running = make.reservation(alice, pool, duration="1h")
    binding = make.reservation(alice, pool, duration="1h")
    outlasting = make.reservation(alice, pool, duration="2d")
    passed = make.reservation(alice, pool, start=now + HOUR_MS, duration="1h")
    tomorrow = make.reservation(alice, pool, start=now + 24 * HOUR_MS, duration="1h")
    short = make.pool(nodes=1, gpus=1, maxPending="1h")
    make.reservation(alice, short, duration="30d")
    waiting = make.reservation(alice, short)
    silent = binding.allocations.get().node_id
    speaking = [agent for agent in agents() if agent.node_id != silent]
    settle(runner, speaking)
    assert Reservation.objects.get(pk=running.pk).state == "active"
    assert Reservation.objects.get(pk=binding.pk).state == "binding"

    clock.advance("10h")
    settle(runner, speaking)

    states = dict(Reservation.objects.values_list("pk", "state"))
    assert states[running.pk] == "released"
    assert states[binding.pk] == "released"
    assert states[outlasting.pk] == "active"
    assert states[passed.pk] == "released"
    assert states[tomorrow.pk] == "placed"
    assert states[waiting.pk] == "expired"
    assert invariants.violations() == []
    overdue, _ = workqueue.lag()
    assert overdue == 0
    assert Reservation.objects.get(pk=tomorrow.pk).starts_at == clock.now() + timedelta(hours=14)
