"""One reservation, driven from placed to its end; nodes are what they reported."""

from datetime import timedelta

import pytest

from bettercompute.states import AllocationState
from nodes import assignments, desired, eligibility
from nodes.models import Assignment, DeviceBooking, Node, ReportedState
from outbox.models import Event
from pools.models import QuotaUsage
from reservations import ending, placement, reconciler
from reservations.models import Allocation, Reservation
from tests.support import cast, make

pytestmark = pytest.mark.django_db(transaction=True)


def used() -> int:
    return QuotaUsage.objects.get(tenant__slug="acme", resource="gpuMilli").used


def events(reservation: Reservation) -> list[str]:
    found = Event.objects.filter(subject=f"reservation/{reservation.pk}").order_by("seq")
    return [event.type.removeprefix("reservation.") for event in found]


def condition(reservation: Reservation) -> str:
    """The reason of its only condition."""
    (only,) = reservation.conditions
    return f"{only['type']}/{only['reason']}"


@pytest.mark.rule("R26", "R24", "N6")
def test_at_the_start_the_nodes_are_asked_and_a_report_makes_it_active(clock):
    reservation = make.reservation(cast.caller("alice"), make.pool(), gpus=2)
    node_id = Allocation.objects.get().node_id

    reservation = make.look(reservation)
    assert reservation.state == "binding"
    assert reservation.bind_deadline == clock.now() + timedelta(minutes=5)
    (wanted,) = desired.read(node_id).assignments
    assert len(wanted.device_ids) == 2

    make.report(reservation, ReportedState.BOUND)
    reservation = make.look(reservation)
    assert reservation.state == "active"
    allocation = Allocation.objects.get()
    assert allocation.state == AllocationState.BOUND
    assert allocation.binding["cdiDevices"] == [f"bcd.dev/gpu={d}" for d in wanted.device_ids]
    assert events(reservation) == ["placed", "binding", "active"]


@pytest.mark.rule("R24", "C27")
def test_looking_twice_changes_nothing():
    reservation = make.active(cast.caller("alice"), make.pool())
    before = Reservation.objects.values().get()
    reconciler.reconcile(reservation.pk, make.fence)
    assert Reservation.objects.values().get() == before
    assert events(reservation) == ["placed", "binding", "active"]


@pytest.mark.rule("R24", "R26")
def test_a_future_reservation_is_left_alone_until_its_start(clock):
    start = clock.now_ms() + 3_600_000
    reservation = make.look(make.reservation(cast.caller("alice"), make.pool(), start=start))
    assert reservation.state == "placed"
    assert not Assignment.objects.filter(wanted=True).exists()
    clock.advance("1h")
    assert make.look(reservation).state == "binding"


@pytest.mark.rule("R31")
def test_only_the_allocations_own_slice_is_answered():
    reservation = make.look(make.reservation(cast.caller("alice"), make.pool()))
    own = f"bcd-alloc-{Allocation.objects.get().pk}.slice"
    make.report(reservation, ReportedState.BOUND, cdiDevices=["x"], cgroupParent="other.slice")
    make.look(reservation)
    assert Allocation.objects.get().binding["cgroupParent"] is None

    other = make.look(make.reservation(cast.caller("bob"), make.pool()))
    own = f"bcd-alloc-{other.allocations.get().pk}.slice"
    make.report(other, ReportedState.BOUND, cdiDevices=["x"], cgroupParent=own)
    make.look(other)
    assert other.allocations.get().binding["cgroupParent"] == own


@pytest.mark.rule("R26", "R17")
def test_a_node_that_stays_silent_loses_it_to_another_and_the_third_time_it_fails(clock):
    pool = make.pool(nodes=3)
    reservation = make.look(make.reservation(cast.caller("alice"), pool))
    nodes = {Allocation.objects.get().node_id}

    for failures in (1, 2):
        clock.advance("5m")
        reservation = make.look(reservation)
        assert reservation.state == "binding"
        assert reservation.placements_failed == failures
        live = Allocation.objects.get(state=AllocationState.BINDING)
        assert live.node_id not in nodes
        nodes.add(live.node_id)
        assert reservation.starts_at == clock.now(), "the window begins when it is placed again"
        assert DeviceBooking.objects.filter(allocation_id=live.pk).count() == 1

    clock.advance("5m")
    reservation = make.look(reservation)
    assert reservation.state == "failed"
    assert used() == 0
    assert not DeviceBooking.objects.filter(during__endswith__gt=clock.now()).exists()
    assert events(reservation)[-1] == "failed"


@pytest.mark.rule("R26")
def test_a_failed_report_is_a_failure_at_once():
    pool = make.pool(nodes=2)
    reservation = make.look(make.reservation(cast.caller("alice"), pool))
    first = Allocation.objects.get()
    make.report(reservation, ReportedState.FAILED, reason="resources-exhausted")
    reservation = make.look(reservation)
    first.refresh_from_db()
    assert first.state == AllocationState.FAILED
    assert first.reason == "resources-exhausted"
    assert Allocation.objects.get(state=AllocationState.BINDING).node_id != first.node_id


@pytest.mark.rule("R26")
def test_a_lone_node_that_failed_is_tried_again():
    reservation = make.look(make.reservation(cast.caller("alice"), make.pool(nodes=1)))
    make.report(reservation, ReportedState.FAILED, reason="bind-failed")
    assert make.look(reservation).state == "binding"


@pytest.mark.rule("R26", "R23")
def test_a_binding_that_is_lost_degrades_it_until_it_is_bound_again(clock):
    reservation = make.active(cast.caller("alice"), make.pool())

    make.report(reservation, ReportedState.RELEASED, reason="binding-lost")
    reservation = make.look(reservation)
    assert reservation.state == "active"
    assert condition(reservation) == "Degraded/BindingLost"
    node = Node.objects.get().name  # as people know it
    assert reservation.conditions[0]["message"] == f"{node} let go of the devices it handed over."

    make.report(reservation, ReportedState.BOUND)
    assert make.look(reservation).conditions == []


@pytest.mark.rule("C36", "R24")
def test_an_unreachable_node_only_degrades_it():
    reservation = make.active(cast.caller("alice"), make.pool())
    node_id = Allocation.objects.get().node_id
    eligibility.mark_unreachable(node_id)
    reservation = make.look(reservation)
    assert reservation.state == "active"
    assert condition(reservation) == "Degraded/NodeUnreachable"
    assert DeviceBooking.objects.count() == 1

    eligibility.mark_ready(node_id)
    assert make.look(reservation).conditions == []


@pytest.mark.rule("R25", "R24")
def test_an_end_that_comes_near_is_told_once(clock):
    reservation = make.active(cast.caller("alice"), make.pool(), duration="1h")
    clock.advance("45m")
    reservation = make.look(reservation)
    assert condition(reservation) == "EndingSoon/EndReached"
    make.look(reservation)
    assert events(reservation).count("ending") == 1


@pytest.mark.rule("R35", "R24", "C14")
def test_its_end_releases_it_and_the_devices_follow_when_the_node_confirms(clock):
    reservation = make.active(cast.caller("alice"), make.pool(), duration="1h")
    clock.advance("1h")
    reservation = make.look(reservation)
    assert [reservation.state, reservation.reason] == ["released", "expired"]
    assert used() == 0
    assert Allocation.objects.get().state == AllocationState.RELEASING

    make.report(reservation, ReportedState.RELEASED)
    make.look(reservation)
    assert Allocation.objects.get().state == AllocationState.RELEASED
    assert not Assignment.objects.exists()


@pytest.mark.rule("R35")
@pytest.mark.case(22)
def test_a_released_hold_keeps_its_devices_booked_until_the_node_lets_go(clock):
    pool = make.pool(gpus=8)
    reservation = make.active(cast.caller("alice"), pool, gpus=8, duration="8h")
    clock.advance("1h")
    ended = ending.release(cast.caller("alice"), reservation_id=reservation.pk)

    assert ended.ends_at == clock.now()
    assert used() == 0
    waiting = make.reservation(cast.caller("bob"), pool, gpus=8)
    assert waiting.state == "pending", "the node has not let go yet"

    make.report(reservation, ReportedState.RELEASED)
    make.look(reservation)
    make.look_at_pool(pool)
    waiting.refresh_from_db()
    assert waiting.state == "placed"


@pytest.mark.rule("R24", "R35")
@pytest.mark.case(13)
def test_at_the_same_instant_the_end_runs_before_the_start(clock):
    pool, alice = make.pool(gpus=8), cast.caller("alice")
    first = make.active(alice, pool, gpus=8, duration="1h")
    second = make.reservation(alice, pool, gpus=8, start=clock.now_ms() + 3_600_000)
    clock.advance("1h")

    # The worst order: the start is looked at first. Nothing enters the node's desired state yet.
    second = make.look(second)
    assert [second.state, second.bind_deadline] == ["binding", None]
    node_id = first.allocations.get().node_id
    first = make.look(first)
    make.report(first, ReportedState.RELEASED)
    make.look(first)

    second = make.look(second)
    (wanted,) = desired.read(node_id).assignments
    assert wanted.allocation_id == second.allocations.get().pk
    assert second.bind_deadline == clock.now() + timedelta(minutes=5)


@pytest.mark.rule("R35")
def test_whoever_waits_for_a_device_that_is_never_let_go_is_placed_elsewhere(clock):
    pool, alice = make.pool(nodes=1, gpus=8), cast.caller("alice")
    make.active(alice, pool, gpus=8, duration="1h")
    start = clock.now_ms() + 3_600_000
    second = make.reservation(alice, pool, gpus=8, start=start, duration="2h")
    make.node(pool)
    clock.advance("1h")
    first = Reservation.objects.get(state="active")
    make.look(first)
    second = make.look(second)
    clock.advance("6m")

    second = make.look(second)
    assert second.state in {"pending", "binding"}
    assert second.placements_failed == 0, "it is not its fault"
    live = second.allocations.filter(state=AllocationState.BINDING)
    assert {a.node_id for a in live}.isdisjoint({first.allocations.get().node_id})


@pytest.mark.rule("R24", "C27")
@pytest.mark.case(18)
def test_a_window_wholly_past_goes_straight_to_its_end(clock):
    start = clock.now_ms() + 3_600_000
    reservation = make.reservation(cast.caller("alice"), make.pool(), start=start)
    clock.advance("3h")
    reservation = make.look(reservation)
    assert [reservation.state, reservation.reason] == ["released", "expired"]
    assert events(reservation) == ["placed", "released"]


@pytest.mark.rule("R32")
def test_a_lapsed_lease_releases_it(clock):
    reservation = make.active(cast.caller("alice"), make.pool(), duration="8h", leaseSeconds=600)
    clock.advance("10m")
    reservation = make.look(reservation)
    assert [reservation.state, reservation.reason] == ["released", "lease-lapsed"]


@pytest.mark.rule("C18", "R24")
def test_freed_capacity_wakes_who_waits(clock):
    pool, alice = make.pool(gpus=8), cast.caller("alice")
    first = make.reservation(alice, pool, gpus=8)
    waiting = make.reservation(alice, pool, gpus=8)
    ending.release(alice, reservation_id=first.pk)
    make.look_at_pool(pool)
    waiting.refresh_from_db()
    assert waiting.state == "placed"
    assert waiting.conditions == []


@pytest.mark.rule("R24")
def test_who_waits_too_long_expires(clock):
    pool, alice = make.pool(gpus=8, maxPending="1d"), cast.caller("alice")
    make.reservation(alice, pool, gpus=8, duration="30d")
    waiting = make.reservation(alice, pool, gpus=1)
    clock.advance("1d")
    assert make.look(waiting).state == "expired"
    assert used() == 8_000


@pytest.mark.rule("R17")
def test_a_pending_reservation_keeps_its_start_while_that_is_ahead(clock):
    pool, alice = make.pool(gpus=8), cast.caller("alice")
    blocker = make.reservation(alice, pool, gpus=8, duration="30d")
    start = clock.now_ms() + 2 * 3_600_000
    waiting = make.reservation(alice, pool, gpus=1, start=start, duration="3h")
    assert waiting.state == "pending"
    ending.release(alice, reservation_id=blocker.pk)
    make.look_at_pool(pool)
    waiting.refresh_from_db()
    assert waiting.starts_at == clock.now() + timedelta(hours=2)


@pytest.mark.rule("R9")
def test_an_abandoned_draft_expires(clock):
    pool = make.pool(quota_gpus=0)
    with pytest.raises(Exception, match="quota"):
        make.reservation(cast.caller("alice"), pool)
    draft = Reservation.objects.get()
    clock.advance("24h")
    assert make.look(draft).state == "expired"


@pytest.mark.rule("R35")
def test_forgotten_assignments_leave_nothing_behind(clock):
    reservation = make.active(cast.caller("alice"), make.pool(), duration="1h")
    ending.release(cast.caller("alice"), reservation_id=reservation.pk)
    make.report(reservation, ReportedState.RELEASED)
    make.look(reservation)
    assert assignments.reports(reservation.pk) == []
    assert Allocation.objects.get().state == AllocationState.RELEASED


@pytest.mark.rule("C18")
def test_who_loses_to_rivals_again_is_tried_again_within_a_second(clock, monkeypatch):
    pool, alice = make.pool(gpus=8), cast.caller("alice")
    make.reservation(alice, pool, gpus=8)
    waiting = make.reservation(alice, pool)
    lost = placement.Unplaced((), lost_to_rivals=True)
    monkeypatch.setattr(placement, "place", lambda *_, **__: lost)
    outcome = reconciler.reconcile(waiting.pk, make.fence)
    assert outcome.instant == clock.now() + timedelta(seconds=1)


@pytest.mark.rule("R17")
@pytest.mark.parametrize("late", ["0s", "1ms", "5h"])
def test_once_its_start_has_passed_the_window_begins_when_it_is_placed_with_all_its_length(
    clock, late
):
    pool, alice = make.pool(gpus=8), cast.caller("alice")
    blocker = make.reservation(alice, pool, gpus=8, duration="30d")
    start = clock.now_ms() + 2 * 3_600_000
    waiting = make.reservation(alice, pool, gpus=1, start=start, duration="3h")
    clock.advance("2h")
    if late != "0s":
        clock.advance(late)
    ending.release(alice, reservation_id=blocker.pk)
    make.look_at_pool(pool)
    waiting.refresh_from_db()
    assert waiting.starts_at == clock.now()
    assert waiting.ends_at == clock.now() + timedelta(hours=3)
    assert waiting.request["start"] == start, "what was asked for stays what it was"
