"""A reservation's life with everything delivered several times, and at once (C28).

Work comes twice to two processes, a worker hears "look" four times in a moment, an old holder goes
on after a takeover, a node's reports come again: each has the effect of one.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import transaction

from bettercompute.coordination import fencing, holdings, leases, workqueue
from bettercompute.coordination.fencing import Fence, LeaseLost
from bettercompute.coordination.models import WorkItem
from bettercompute.coordination.runner import Done, Outcome
from bettercompute.coordination.worker import Worker
from nodes import desired, reports
from nodes.protocol.messages import ReportEntry
from outbox import queries as told
from reservations import ending, reconciler
from reservations.models import Reservation
from tests.support import cast, invariants, make, sessions
from tests.support.storm_agents import Agent

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("C28")]


def looked_at_by_many(reservation: Reservation) -> None:
    """Three runs at the same moment, and two behind them."""

    def look() -> Outcome:
        return reconciler.reconcile(reservation.pk, transaction.atomic)

    for outcome in sessions.race(look, look, look):
        assert not isinstance(outcome, Exception), outcome
    look()
    look()


def steps(reservation: Reservation) -> list[str]:
    rows = told.for_subject(f"reservation/{reservation.pk}")
    return [row.type.removeprefix("reservation.") for row in reversed(rows)]


def state(reservation: Reservation) -> str:
    return Reservation.objects.values_list("state", flat=True).get(pk=reservation.pk)


class Repeating(Agent):
    """An agent that hands over each report three times, the last time after a newer one."""

    def report_again(self) -> None:
        entries: list[ReportEntry] = []
        real = self._entry

        def kept(*each: Any) -> ReportEntry:
            entries.append(real(*each))
            return entries[-1]

        self._entry = kept  # type: ignore[method-assign]
        self.report(silent=0.0, failing=0.0)
        for _ in range(2):
            reports.apply(self.node_id, epoch=1, entries=entries)
        self._earlier = [*getattr(self, "_earlier", []), *entries]
        reports.apply(self.node_id, epoch=1, entries=self._earlier[:1])


def test_a_life_in_which_everything_comes_several_times_is_one_life(clock):
    alice = cast.caller("alice")
    reservation = make.reservation(alice, make.pool(), duration="1h")
    node_id = reservation.allocations.get().node_id
    agent = Repeating(node_id)

    looked_at_by_many(reservation)
    assert state(reservation) == "binding"
    generation = desired.generation(node_id)
    agent.report_again()
    looked_at_by_many(reservation)
    assert state(reservation) == "active"
    assert desired.generation(node_id) == generation  # nothing was wanted of the node anew

    for _ in range(2):
        ending.release(alice, reservation_id=reservation.pk)
    looked_at_by_many(reservation)
    agent.report_again()
    looked_at_by_many(reservation)

    assert steps(reservation) == ["placed", "binding", "active", "released"]
    assert reservation.allocations.get().state == "released"
    assert invariants.violations() == []
    assert invariants.held() == []


def test_a_worker_that_hears_look_four_times_at_once_runs_each_key_once(clock):
    ran: list[str] = []

    def reconcile(key: str, fence: Fence) -> Outcome:
        with fence():
            ran.append(key)
        return Done()

    keys = [f"node_{number}" for number in range(40)]
    workqueue.enqueue_many(("node", key, None) for key in keys)
    worker = Worker({"node": reconcile}, {})
    worker.holdings.refresh()
    sessions.race(*[worker.look] * 4)
    worker.look()
    worker.stop()
    assert sorted(ran) == sorted(keys)
    assert not WorkItem.objects.exists()


def test_an_old_holder_that_goes_on_after_the_takeover_does_nothing_of_its_own(clock):
    reservation = make.reservation(cast.caller("alice"), make.pool(), duration="1h")
    name = holdings.shard_name(workqueue.shard_of(reservation.pk))
    old = leases.take(name, owner="own_old")
    assert old is not None
    clock.advance("15s")
    new = leases.take(name, owner="own_new")
    assert new is not None

    def as_holder(lease: leases.Lease) -> Callable[[], Outcome]:
        return lambda: reconciler.reconcile(reservation.pk, partial(fencing.fenced, lease))

    before = Reservation.objects.values().get()
    with pytest.raises(LeaseLost):
        as_holder(old)()
    assert Reservation.objects.values().get() == before
    outcomes = sessions.race(as_holder(old), as_holder(new), as_holder(old))
    assert sorted(isinstance(outcome, LeaseLost) for outcome in outcomes) == [False, True, True]
    assert steps(reservation) == ["placed", "binding"]
