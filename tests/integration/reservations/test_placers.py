"""What a client sees is the same whichever placer serves the pool (R13): one suite for both.

A queued pool answers ``Queued`` first; then its line is placed, as here behind every create.
"""

from datetime import timedelta
from typing import Any

import pytest

from bettercompute import errors, failpoints, wiring
from bettercompute.coordination.runner import Runner
from bettercompute.failpoints import Failpoint
from nodes import bookings, eligibility, maintenance
from nodes.models import DeviceBooking, Node, ReportedState
from nodes.operations import maintenance as operation
from outbox.models import Event
from pools.models import Placer, Pool, QuotaUsage
from reservations import admission, ending, moments, queries
from reservations.models import Allocation, Reservation
from tests.support import cast, make, supply

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("R13")]

RACK = "topology.bc.dev/rack"


@pytest.fixture(params=list(Placer))
def placer(request) -> Placer:
    return request.param


def pool_of(placer: Placer, **supplied: Any) -> Pool:
    return make.placed_by(placer, make.pool(**supplied))


def ask(pool: Pool, name: str = "alice", **changes: Any) -> Reservation:
    """Create, and let the placer have its turn."""
    made = make.reservation(cast.caller(name), pool, **changes)
    make.look_at_pool(pool)
    made.refresh_from_db()
    return made


def give_back(reservation: Reservation, pool: Pool) -> None:
    ending.release(cast.caller("alice"), reservation_id=reservation.pk)
    make.look_at_pool(pool)


def work() -> int:
    """A worker runs whatever is due."""
    return Runner(wiring.reconcilers()).drain()


def states(*reservations: Reservation) -> list[str]:
    return [Reservation.objects.get(pk=each.pk).state for each in reservations]


def used() -> int:
    return QuotaUsage.objects.get(tenant__slug="acme", resource="gpuMilli").used


def told(reservation: Reservation) -> list[str]:
    """What was told of it; that it waits in the queue is only ever told of one that does."""
    found = Event.objects.filter(subject=f"reservation/{reservation.pk}").order_by("seq")
    names = [event.type.removeprefix("reservation.") for event in found]
    return [name for name in names if name != "queued"]


def test_what_fits_is_placed_from_now_on_for_its_full_duration(placer, clock):
    made = ask(pool_of(placer), gpus=4, duration="8h")
    assert made.state == "placed"
    assert (made.starts_at, made.ends_at) == (clock.now(), clock.now() + timedelta(hours=8))
    assert made.gpu_milli == used() == 4_000
    assert DeviceBooking.objects.count() == len(Allocation.objects.get().device_ids) == 4
    assert made.conditions == []
    assert queries.answer(made.pk).operation.state == "succeeded"
    assert told(made) == ["placed"]


def test_what_does_not_fit_waits_with_the_reason_and_keeps_its_charge(placer):
    pool = pool_of(placer)
    ask(pool, gpus=6)
    waiting = ask(pool, gpus=4)
    assert waiting.state == "pending"
    (why,) = waiting.conditions
    assert (why["type"], why["reason"]) == ("Unschedulable", "NoCapacity")
    assert why["message"] == "1 node lacks 4 GPUs free (busy)."
    assert queries.answer(waiting.pk).operation.state == "waiting"
    assert used() == 10_000
    assert told(waiting) == ["pending"]


def test_looking_again_changes_nothing_of_what_waits(placer):
    pool = pool_of(placer)
    ask(pool, gpus=6)
    waiting = ask(pool, gpus=4)
    before = Reservation.objects.values().get(pk=waiting.pk)
    make.look_at_pool(pool)
    assert Reservation.objects.values().get(pk=waiting.pk) == before
    assert told(waiting) == ["pending"]


def test_what_is_given_back_goes_to_the_highest_priority_then_to_the_oldest(placer, clock):
    pool = pool_of(placer, gpus=2)
    holder = ask(pool, gpus=2)
    line = []
    for priority in (0, 0, 5, 1):
        line.append(ask(pool, "alice", priority=priority))
        clock.advance("1m")
    give_back(holder, pool)
    assert states(*line) == ["pending", "pending", "placed", "placed"]
    give_back(line[2], pool)
    assert states(*line) == ["placed", "pending", "released", "placed"]


@pytest.mark.rule("R16")
@pytest.mark.case(5)
def test_a_gang_takes_no_node_of_a_rack_that_has_too_few(placer):
    pool = pool_of(placer, nodes=3, gpus=8)
    for node, rack in zip(Node.objects.order_by("pk"), ["a", "a", "b"], strict=True):
        eligibility.set_labels(node.pk, {RACK: rack})
    first = Node.objects.order_by("pk")[0]
    eligibility.cordon(first.pk)
    gang = {"nodes": 2, "topology": "same-rack"}
    waiting = ask(pool, gpus=8, gang=gang)
    assert waiting.state == "pending"
    assert "2 nodes same-rack at once" in waiting.conditions[0]["message"]
    assert not DeviceBooking.objects.exists()

    eligibility.uncordon(first.pk)
    make.look_at_pool(pool)

    waiting.refresh_from_db()
    assert waiting.state == "placed"
    racks = {Node.objects.get(pk=each.node_id).labels[RACK] for each in waiting.allocations.all()}
    assert racks == {"a"}


@pytest.mark.rule("R16")
@pytest.mark.case(6)
def test_of_two_gangs_that_need_every_node_one_runs_and_the_other_holds_nothing(placer, clock):
    pool = pool_of(placer, nodes=4, gpus=2)
    gangs = []
    for _ in range(2):
        gangs.append(make.reservation(cast.caller("alice"), pool, gpus=2, gang={"nodes": 4}))
        clock.advance("1s")
    make.look_at_pool(pool)
    assert states(*gangs) == ["placed", "pending"]
    assert DeviceBooking.objects.count() == 8
    assert not gangs[1].allocations.exists()
    give_back(gangs[0], pool)
    assert states(*gangs) == ["released", "placed"]


def test_a_taint_keeps_off_who_does_not_tolerate_it(placer):
    pool = pool_of(placer)
    eligibility.taint(Node.objects.get().pk, [{"key": "dedicated", "value": "vision"}])
    plain = ask(pool)
    assert plain.state == "pending"
    assert "toleration of dedicated=vision:NoSchedule" in plain.conditions[0]["message"]
    tolerant = ask(pool, tolerations=[{"key": "dedicated", "value": "vision"}])
    assert tolerant.state == "placed"


@pytest.mark.rule("N18")
def test_nothing_is_placed_over_maintenance(placer, clock):
    pool = pool_of(placer)
    alice, start = cast.caller("alice"), clock.now() + timedelta(hours=2)
    at = operation.access(alice, pool_id=pool.pk, node_id=None)
    planned = operation.Planned(start, start + timedelta(hours=1), "new power supplies")
    window = operation.announce(alice, at, planned).window
    before, over = ask(pool, duration="2h"), ask(pool, duration="3h")
    assert states(before, over) == ["placed", "pending"]
    assert "a node without maintenance in that time" in over.conditions[0]["message"]
    maintenance.cancel(window.id, account_id=alice.account_id)
    make.look_at_pool(pool)
    assert states(over) == ["placed"]


@pytest.mark.rule("R30")
def test_no_more_of_a_host_is_given_than_it_has(placer):
    pool = pool_of(placer)  # one host of 192 vCPU
    first = ask(pool, resources={"vcpu": 150})
    second = ask(pool, resources={"vcpu": 50})
    assert states(first, second) == ["placed", "pending"]
    assert "50 CPUs" in second.conditions[0]["message"]
    assert first.allocations.get().resources["vcpu"] == 150


@pytest.mark.rule("R18")
def test_a_start_ahead_books_its_window_now(placer, clock):
    pool = pool_of(placer)
    now = ask(pool, gpus=8, duration="1h")
    start = clock.now() + timedelta(hours=1)
    then = ask(pool, gpus=8, duration="2h", start=int(start.timestamp() * 1_000))
    assert states(now, then) == ["placed", "placed"]
    assert (then.starts_at, then.ends_at) == (start, start + timedelta(hours=2))


@pytest.mark.rule("R17")
def test_a_start_is_kept_while_it_is_ahead_and_is_the_placement_once_it_has_passed(placer, clock):
    pool = pool_of(placer)
    holder = ask(pool, gpus=8, duration="1d")
    start = clock.now() + timedelta(hours=1)
    waiting = ask(pool, gpus=8, duration="2h", start=int(start.timestamp() * 1_000))
    assert (waiting.state, waiting.starts_at) == ("pending", start)

    clock.advance("30m")
    make.look_at_pool(pool)
    waiting.refresh_from_db()
    assert (waiting.state, waiting.starts_at) == ("pending", start)

    clock.advance("90m")
    give_back(holder, pool)
    waiting.refresh_from_db()
    assert waiting.state == "placed"
    assert waiting.starts_at == clock.now()
    assert waiting.ends_at == clock.now() + timedelta(hours=2)


@pytest.mark.rule("C14", "R11")
def test_what_exceeds_the_quota_never_lines_up(placer):
    pool = pool_of(placer, quota_gpus=2)
    with pytest.raises(errors.QuotaExceeded):
        ask(pool, gpus=4)
    assert Reservation.objects.get().state == "draft"
    assert used() == 0


@pytest.mark.rule("R19")
def test_spot_gives_way_to_what_does_not_fit_otherwise_in_the_order_of_the_line(placer, clock):
    pool = pool_of(placer)
    spot = ask(pool, gpus=8, spot=True, duration="8h")
    clock.advance("1s")
    wanted = ask(pool, gpus=8, duration="1h")
    assert wanted.state == "placed"
    assert wanted.starts_at == Reservation.objects.get(pk=spot.pk).ends_at
    assert wanted.starts_at < clock.now() + timedelta(minutes=3)


@pytest.mark.rule("R8")
def test_the_same_key_is_the_same_reservation_and_another_request_a_conflict(placer):
    pool, alice = pool_of(placer), cast.caller("alice")
    first = ask(pool, idempotency_key="k")
    again = admission.admit(alice, make.request(alice, pool), idempotency_key="k")
    assert again == admission.Admitted(first.pk, created=False)
    with pytest.raises(errors.Conflict):
        ask(pool, idempotency_key="k", gpus=2)
    assert used() == 1_000


def test_a_range_takes_as_many_as_fit(placer):
    pool = pool_of(placer)
    ask(pool, gpus=5)
    assert ask(pool, gpus={"min": 1, "max": 8}).gpu_milli == 3_000
    assert ask(pool, gpus={"min": 1, "max": 8}).state == "pending"


@pytest.mark.rule("R35")
def test_what_waits_leaves_the_line_when_it_is_released(placer):
    pool = pool_of(placer)
    holder, waiting = ask(pool, gpus=8), ask(pool, gpus=8)
    ending.release(cast.caller("alice"), reservation_id=waiting.pk)
    give_back(holder, pool)
    assert states(holder, waiting) == ["released", "cancelled"]
    assert not DeviceBooking.objects.exists()
    assert used() == 0


@pytest.mark.rule("R24")
def test_what_waits_as_long_as_the_pool_lets_it_is_given_up(placer, clock):
    pool = pool_of(placer, maxPending="1h")
    holder, waiting = ask(pool, gpus=8), ask(pool, gpus=8)
    clock.advance("1h")
    give_back(holder, pool)
    assert make.look(waiting).state == "expired"
    assert used() == 0


@pytest.mark.rule("C18")
def test_a_node_that_a_rival_takes_first_is_left_to_it(placer):
    pool = pool_of(placer, nodes=2)
    preferred = ask(pool, gpus=2).allocations.get().node_id  # its node is in use already
    rest = supply.window(hours=1)

    def rival() -> None:
        failpoints.disarm()
        node = Node.objects.get(pk=preferred)
        free = bookings.free_between(supply.devices(node), **rest)
        assert bookings.book(allocation_id="cmd_rival", device_ids=free, **rest) == 6

    failpoints.arm(Failpoint.PLACEMENT_PLANNED, rival)
    made = ask(pool, gpus=2)
    assert made.state == "placed"
    assert made.allocations.get().node_id != preferred


@pytest.mark.rule("R26")
def test_what_failed_to_bind_is_placed_again_on_another_node(placer):
    pool = pool_of(placer, nodes=2)
    made = make.look(ask(pool))
    failed = made.allocations.get().node_id
    make.report(made, ReportedState.FAILED, reason="no driver")
    make.look(made)
    make.look_at_pool(pool)
    made = make.look(made)
    assert made.state == "binding"
    assert made.allocations.get(state="binding").node_id != failed


@pytest.mark.rule("R13", "C27")
def test_a_change_of_placer_loses_nobody_who_waits(placer, clock):
    other = next(each for each in Placer if each is not placer)
    pool = pool_of(placer)
    holder = ask(pool, gpus=8)
    waiting = [ask(pool, gpus=3), make.reservation(cast.caller("alice"), pool, gpus=3)]
    make.placed_by(other, pool)
    waiting.append(make.reservation(cast.caller("alice"), pool, gpus=2))
    make.look_at_pool(pool)
    assert states(*waiting) == ["pending"] * 3
    give_back(holder, pool)
    assert states(*waiting) == ["placed"] * 3


@pytest.mark.rule("C18", "C27")
def test_what_waits_is_tried_again_though_nobody_says_that_something_changed(placer, clock):
    pool = pool_of(placer)
    node = Node.objects.get()
    Node.objects.filter(pk=node.pk).update(cordoned=True)
    waiting = make.reservation(cast.caller("alice"), pool)
    work()
    Node.objects.filter(pk=node.pk).update(cordoned=False)
    assert work() == 0
    assert states(waiting) == ["pending"]
    clock.advance(moments.PENDING_RETRY)
    work()
    assert states(waiting) == ["binding"]
