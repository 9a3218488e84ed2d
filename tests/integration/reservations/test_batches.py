"""The queued placer (R13): a pool's line, planned and committed in batches by one process."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from bettercompute import clock as clocks
from bettercompute import failpoints
from bettercompute.coordination import leases
from bettercompute.coordination.runner import At, Done, Outcome
from bettercompute.failpoints import Failpoint
from nodes import bookings, eligibility
from nodes.models import DeviceBooking, Node
from pools.models import Placer, Pool
from reservations import ending, moments
from reservations.models import Reservation
from reservations.placing import batches, line
from tests.support import cast, invariants, make, supply

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("R13")]

OTHER = "another-process"


def queued(**supplied: Any) -> Pool:
    return make.placed_by(Placer.QUEUED, make.pool(**supplied))


def ask(pool: Pool, **changes: Any) -> Reservation:
    """One more in the line, behind all others."""
    clocks.advance_sim_clock(timedelta(seconds=1))
    return make.reservation(cast.caller("alice"), pool, **changes)


def look(pool: Pool) -> Outcome:
    return line.reconcile(pool.pk, make.fence)


def states(*reservations: Reservation) -> list[str]:
    return [Reservation.objects.get(pk=each.pk).state for each in reservations]


def host_of(reservation: Reservation) -> str:
    return Reservation.objects.get(pk=reservation.pk).allocations.get().node_id


@pytest.mark.case(7)
def test_a_batch_changes_the_first_ones_place_for_the_second():
    pool = queued(gpus=56)
    ask(pool, gpus=3)
    look(pool)
    large, small = Node.objects.get().pk, make.node(pool, gpus=31)
    x, y = ask(pool, gpus=30), ask(pool, gpus=50)
    look(pool)
    assert (host_of(x), host_of(y)) == (small, large)
    assert invariants.violations() == []


def test_a_line_longer_than_a_batch_is_placed_in_one_run(monkeypatch):
    monkeypatch.setattr(batches, "BATCH_MAX", 2)
    pool = queued(gpus=4)
    line_of_five = [ask(pool) for _ in range(5)]
    look(pool)
    assert states(*line_of_five) == ["placed"] * 4 + ["pending"]


def test_a_batch_opens_no_subtransactions_and_locks_each_kind_of_row_once():
    pool = queued(nodes=2)
    some = [ask(pool, gpus=2) for _ in range(3)]
    with CaptureQueriesContext(
        connection,
    ) as sent:
        look(pool)
    assert states(*some) == ["placed"] * 3
    texts = [query["sql"] for query in sent]
    assert not [text for text in texts if text.startswith("SAVEPOINT")]
    for once in ("FROM nodes\nWHERE id = ANY", "FOR SHARE OF devices", "INSERT INTO device_book"):
        assert len([text for text in texts if once in text]) == 1, once


def test_it_looks_again_while_somebody_waits(clock):
    pool = queued()
    assert look(pool) == Done()
    holder, waiting = ask(pool, gpus=8), ask(pool, gpus=8)
    assert look(pool) == At(clock.now() + moments.PENDING_RETRY)
    ending.release(cast.caller("alice"), reservation_id=holder.pk)
    look(pool)
    assert states(waiting) == ["placed"]
    assert look(pool) == Done()


def test_nobody_in_the_line_tries_alone(clock):
    pool = queued()
    waiting = ask(pool)
    clock.advance(moments.PENDING_RETRY)
    assert make.look(waiting).state == "pending"


# --- one placer at a time (C29, C30) --------------------------------------------------------------


@pytest.mark.rule("C29")
def test_while_another_process_places_the_line_it_is_left_to_it(clock):
    pool = queued()
    waiting = ask(pool)
    theirs = leases.take(batches.lease_name(pool.pk), owner=OTHER)
    assert look(pool) == At(clock.now() + batches.ELSEWHERE_RETRY)
    assert states(waiting) == ["pending"]
    leases.give_up(theirs)
    look(pool)
    assert states(waiting) == ["placed"]


@pytest.mark.rule("C30", "C35")
def test_a_placer_that_was_replaced_while_it_planned_writes_nothing(clock):
    pool = queued()
    waiting = ask(pool)

    def be_replaced() -> None:
        failpoints.disarm()
        clock.advance(timedelta(seconds=leases.TTL_SECONDS))
        assert leases.take(batches.lease_name(pool.pk), owner=OTHER) is not None

    failpoints.arm(Failpoint.PLACEMENT_PLANNED, be_replaced)
    assert isinstance(look(pool), At)
    assert states(waiting) == ["pending"]
    assert not DeviceBooking.objects.exists()
    assert leases.current(batches.lease_name(pool.pk)).owner == OTHER


@pytest.mark.rule("C1")
def test_a_placer_that_dies_inside_its_transaction_leaves_nothing_and_the_next_places_all():
    pool = queued()
    some = [ask(pool, gpus=4), ask(pool, gpus=4)]

    class Killed(BaseException):
        """As a process is."""

    def die() -> None:
        failpoints.disarm()
        raise Killed

    failpoints.arm(Failpoint.PLACEMENT_BOOKED, die)
    with pytest.raises(Killed):
        look(pool)
    assert states(*some) == ["pending"] * 2
    assert not DeviceBooking.objects.exists()
    look(pool)
    assert states(*some) == ["placed"] * 2
    assert invariants.violations() == []


# --- rivals (C18) ---------------------------------------------------------------------------------


@pytest.mark.rule("C18")
def test_whoever_leaves_the_line_while_it_is_planned_is_left_out():
    pool = queued()
    gone, stays = ask(pool, gpus=4), ask(pool, gpus=4)

    def leave() -> None:
        failpoints.disarm()
        ending.release(cast.caller("alice"), reservation_id=gone.pk)

    failpoints.arm(Failpoint.PLACEMENT_PLANNED, leave)
    look(pool)
    assert states(gone, stays) == ["cancelled", "placed"]
    assert DeviceBooking.objects.count() == 4


@pytest.mark.rule("C18")
def test_whoever_lost_a_place_gets_the_one_that_another_behind_was_planned_for(clock):
    """Keeping the others' plans would let one behind have the only place of one ahead."""
    pool = queued(nodes=2, gpus=4)
    first, second = sorted(node.pk for node in Node.objects.all())
    eligibility.set_labels(first, {"cage": "9"})
    ahead = ask(pool, gpus=4)  # anywhere
    behind = ask(pool, gpus=4)

    def rival() -> None:
        failpoints.disarm()
        _take(first)

    failpoints.arm(Failpoint.PLACEMENT_PLANNED, rival)
    look(pool)
    assert states(ahead, behind) == ["placed", "pending"]
    assert host_of(ahead) == second


@pytest.mark.rule("C18")
def test_whoever_loses_to_the_last_is_tried_again_within_a_second_and_keeps_nobody_waiting(clock):
    pool = queued(nodes=1, gpus=2)
    for gpus in (3, 4):
        make.node(pool, gpus=gpus)
    tainted = make.node(pool, gpus=1)
    eligibility.taint(tainted, [{"key": "small"}])
    tolerant = [{"key": "small", "op": "exists"}]
    ahead, behind = ask(pool, gpus=2), ask(pool, tolerations=tolerant, gpus=1)
    # The best fit first: whole hosts, then the one of which least is left over.
    hosts = sorted(Node.objects.exclude(pk=tainted), key=lambda node: node.devices.count())

    def rival() -> None:
        _take(hosts.pop(0).pk)

    failpoints.arm(Failpoint.PLACEMENT_PLANNED, rival)
    assert look(pool) == At(clock.now() + moments.RIVAL_RETRY)
    failpoints.disarm()

    assert hosts == []
    assert states(ahead, behind) == ["pending", "placed"]
    ahead.refresh_from_db()
    assert ahead.conditions[0]["reason"] == "LostToRivals"
    assert not DeviceBooking.objects.filter(allocation_id__in=ahead.allocations.values("pk"))
    look(pool)
    ahead.refresh_from_db()
    assert ahead.conditions[0]["reason"] == "NoCapacity"


def _take(node_id: str) -> None:
    """A rival has all of a host for a day, from now on."""
    devices = supply.devices(Node.objects.get(pk=node_id))
    window = supply.window(hours=24)
    assert bookings.book(allocation_id=f"cmd_{node_id}", device_ids=devices, **window)


# --- who waits first keeps its place (backfill) ---------------------------------------------------


def _behind_a_holder(**policy: Any) -> tuple[Pool, list[Reservation]]:
    """Two of eight are held for an hour; one wants all, two want one, for longer and for less."""
    pool = queued(**policy)
    ask(pool, gpus=2, duration="1h")
    look(pool)
    waiting = [
        ask(pool, gpus=8, duration="1h"),
        ask(pool, gpus=1, duration="70m"),
        ask(pool, gpus=1, duration="50m"),
    ]
    look(pool)
    return pool, waiting


def test_whoever_waits_first_is_not_delayed_by_those_behind(clock):
    pool, (whole, long, short) = _behind_a_holder()
    assert states(whole, long, short) == ["pending", "pending", "placed"]
    long.refresh_from_db()
    assert "kept for reservations ahead" in long.conditions[0]["message"]

    clock.advance("1h")
    look(pool)
    assert states(whole, long) == ["placed", "pending"]


def test_a_pool_may_let_anybody_pass_who_fits(clock):
    pool, (whole, long, short) = _behind_a_holder(queue={"protect": 0})
    assert states(whole, long, short) == ["pending", "placed", "placed"]
    clock.advance("1h")
    look(pool)
    assert states(whole) == ["pending"]


def test_a_stream_of_small_ones_does_not_keep_a_large_one_waiting_for_ever(clock):
    pool = queued(gpus=4)
    for minutes in (30, 60, 90, 120):
        ask(pool, gpus=1, duration=f"{minutes}m")
    look(pool)
    large = ask(pool, gpus=4, duration="1h")
    for _ in range(4):
        ask(pool, gpus=1, duration="2h")
        look(pool)
        clock.advance("30m")
        look(pool)
    assert states(large) == ["placed"]
