"""Spot gives way to what does not fit otherwise (R19), each reservation driven by hand."""

from datetime import timedelta
from typing import Any

import pytest

from bettercompute import clock as clocks
from bettercompute.wire import capacity as wire
from bettercompute.wire.reservations import ExtendRequest
from nodes.models import Assignment, DeviceBooking, ReportedState
from outbox.models import Event
from pools.models import Pool, QuotaUsage
from reservations import ending, previews, queries
from reservations.extending import extension
from reservations.models import Reservation
from tests.support import cast, invariants, make

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("R19")]

NOTICE = timedelta(seconds=120)


def now_of(reservation: Reservation) -> Reservation:
    return Reservation.objects.get(pk=reservation.pk)


def spot(pool: Pool, who: str = "bob", **changes: Any) -> Reservation:
    return make.active(cast.caller(who), pool, spot=True, **changes)


def ask(pool: Pool, who: str = "alice", **changes: Any) -> Reservation:
    return make.reservation(cast.caller(who), pool, **changes)


def conditions(reservation: Reservation) -> dict[str, str]:
    return {each["type"]: each["reason"] for each in now_of(reservation).conditions}


def events(reservation: Reservation) -> list[str]:
    found = Event.objects.filter(subject=f"reservation/{reservation.pk}").order_by("seq")
    return [event.type.removeprefix("reservation.") for event in found]


def let_go(reservation: Reservation) -> Reservation:
    make.report(reservation, ReportedState.RELEASED)
    return make.look(reservation)


@pytest.mark.rule("R20")
def test_a_preview_says_who_gives_way_and_when_and_a_create_does_so(clock):
    pool = make.pool(gpus=2)
    spot(pool, duration="4h")
    spot(pool, duration="4h")
    alice = cast.caller("alice")
    before = list(Reservation.objects.order_by("pk").values())

    foreseen = previews.preview(alice, make.request(alice, pool, gpus=2))
    assert list(Reservation.objects.order_by("pk").values()) == before, "it writes nothing"
    mine = ask(pool, gpus=2)
    assert foreseen.fits
    assert foreseen.reasons == []
    assert foreseen.preempts == wire.Preemption(reservations=2, start=clocks.to_ms(mine.starts_at))
    assert foreseen.nodes[0].device_ids == mine.allocations.get().device_ids

    none_left = previews.preview(alice, make.request(alice, pool, gpus=2))
    assert (none_left.fits, none_left.preempts) == (False, None)
    assert previews.preview(alice, make.request(alice, pool, spot=True)).preempts is None


def test_what_does_not_fit_is_placed_behind_the_notice_of_a_spot_reservation(clock):
    pool = make.pool(gpus=1)
    victim = spot(pool, duration="4h")
    asked_at = clock.now()

    mine = ask(pool, duration="1h")

    assert mine.state == "placed"
    assert mine.starts_at is not None
    assert NOTICE <= mine.starts_at - asked_at <= NOTICE + timedelta(milliseconds=1)
    assert mine.ends_at == mine.starts_at + timedelta(hours=1), "it has its full duration"
    assert conditions(mine) == {"AwaitingPreemption": "SpotGivesWay"}
    assert events(mine) == ["pending", "placed"]

    victim = now_of(victim)
    assert victim.state == "active", "it keeps what it has for its notice"
    assert victim.ends_at == mine.starts_at
    assert conditions(victim) == {"Preempting": "SpotGivesWay"}
    told = Event.objects.get(type="reservation.preempting")
    assert told.data["end"] == clocks.to_ms(mine.starts_at)
    assert mine.pk not in str(told.data), "whom it gives way to is none of its business"
    assert Assignment.objects.get(owner_key=victim.pk).until == mine.starts_at
    assert invariants.violations() == []


@pytest.mark.rule("R35", "R24")
def test_the_devices_go_over_when_the_node_says_that_they_are_free(clock):
    pool = make.pool(gpus=1)
    victim = spot(pool, duration="4h")
    mine = ask(pool, duration="1h")

    clock.advance("121s")
    victim = make.look(victim)
    assert (victim.state, victim.reason) == ("released", "preempted")
    assert events(victim)[-3:] == ["preempting", "preempted", "released"]
    assert QuotaUsage.objects.get(resource="gpuMilli").used == 1_000, "it is refunded"
    usage = victim.ends_at - victim.starts_at
    assert usage < timedelta(hours=1), "and pays for what it had"

    mine = make.look(mine)
    assert mine.state == "binding"
    assert conditions(mine) == {}
    assert not Assignment.objects.get(owner_key=mine.pk).entered_at, "the node still holds it"
    let_go(victim)
    make.look(mine)
    make.report(mine, ReportedState.BOUND)
    assert make.look(mine).state == "active"
    assert invariants.violations() == []


def test_nobody_else_gets_the_devices_meanwhile(clock):
    pool = make.pool(gpus=1)
    spot(pool, duration="4h")
    mine = ask(pool, duration="1h")
    rival = ask(pool, "carol", duration="1h")
    assert rival.state == "pending"
    assert conditions(rival) == {"Unschedulable": "NoCapacity"}

    ending.cancel(cast.caller("carol"), reservation_id=rival.pk)
    assert now_of(mine).state == "placed"


@pytest.mark.rule("R35")
def test_a_victim_that_ends_by_itself_lets_it_start_sooner(clock):
    pool = make.pool(gpus=1)
    victim = spot(pool, duration="4h")
    mine = ask(pool, duration="90s")
    clock.advance("30s")
    ending.release(cast.caller("bob"), reservation_id=victim.pk)
    make.look_at_pool(pool)
    assert now_of(mine).starts_at == mine.starts_at, "the node has yet to let go"

    let_go(victim)
    make.look_at_pool(pool)
    sooner = now_of(mine)
    assert sooner.starts_at == clock.now()
    assert sooner.ends_at == clock.now() + timedelta(seconds=90)
    assert conditions(sooner) == {}
    assert make.look(sooner).state == "binding"
    assert invariants.violations() == []


def test_a_later_start_that_was_asked_for_stays(clock):
    pool = make.pool(gpus=1)
    victim = spot(pool, duration="4h")
    mine = ask(pool, start=clock.now_ms() + 1_800_000, duration="1h")
    ending.release(cast.caller("bob"), reservation_id=victim.pk)
    let_go(victim)
    make.look_at_pool(pool)
    assert now_of(mine).starts_at == mine.starts_at


def test_spot_and_what_fits_make_nobody_give_way(clock):
    pool = make.pool(gpus=2)
    victim = spot(pool, duration="4h")
    assert ask(pool, duration="1h").state == "placed"
    assert ask(pool, "carol", duration="1h", spot=True).state == "pending"
    assert ask(pool, "carol", duration="1h", gpus=3).state == "pending", "it would not fit anyway"
    assert conditions(victim) == {}
    assert events(victim) == ["placed", "binding", "active"]


def test_the_cheapest_gives_way_and_no_more_than_needed(clock):
    pool = make.pool(gpus=4, maxPriority=9)
    dear = spot(pool, duration="4h", priority=5)
    old = spot(pool, duration="4h")
    clock.advance("30m")
    large = spot(pool, duration="4h", gpus=2)

    assert ask(pool, duration="1h").state == "placed"
    assert conditions(large) == {"Preempting": "SpotGivesWay"}, "it has had the least"
    assert ask(pool, duration="1h").state == "placed", "on the other half of it"
    assert conditions(old) == {}
    third = ask(pool, duration="1h")
    assert conditions(old) == {"Preempting": "SpotGivesWay"}
    assert now_of(old).ends_at == third.starts_at
    assert conditions(dear) == {}
    assert invariants.violations() == []


def test_what_has_begun_runs_for_as_long_as_the_pool_guarantees(clock):
    pool = make.pool(gpus=1, spot={"minRunSeconds": 3_600, "noticeSeconds": 60})
    victim = spot(pool, duration="4h")
    mine = ask(pool, duration="1h")
    assert mine.state == "pending"
    clock.advance("58m")
    assert make.look(mine).state == "pending"
    clock.advance("1m")
    mine = make.look(mine)
    assert mine.state == "placed"
    assert now_of(victim).ends_at == mine.starts_at
    assert mine.starts_at - victim.starts_at >= timedelta(hours=1)


@pytest.mark.rule("R17", "R18")
def test_what_has_not_begun_goes_back_in_line_without_a_notice(clock):
    pool = make.pool(gpus=1)
    start = clock.now_ms() + 1_800_000
    waiting = ask(pool, "bob", spot=True, start=start, duration="4h")
    assert waiting.state == "placed"

    mine = ask(pool, duration="1h")
    assert mine.starts_at == clock.now(), "nobody has to save any work"
    waiting = now_of(waiting)
    assert waiting.state == "pending"
    assert conditions(waiting) == {"Unschedulable": "Preempted"}
    assert clocks.to_ms(waiting.starts_at) == start, "it keeps its start while that is ahead"
    assert queries.answer(waiting.pk).allocations == []
    assert invariants.violations() == []

    make.node(pool, gpus=1)
    waiting = make.look(waiting)
    assert waiting.state == "placed"
    assert clocks.to_ms(waiting.starts_at) == start
    assert len(queries.answer(waiting.pk).allocations) == 1


def test_a_start_ahead_gives_as_much_notice(clock):
    pool = make.pool(gpus=1)
    victim = spot(pool, duration="4h")
    start = clock.now_ms() + 3_600_000
    mine = ask(pool, start=start, duration="1h")
    assert (mine.state, clocks.to_ms(mine.starts_at)) == ("placed", start)
    assert clocks.to_ms(now_of(victim).ends_at) == start


@pytest.mark.rule("R16")
def test_a_gang_gives_way_whole(clock):
    pool = make.pool(nodes=2, gpus=1)
    victim = spot(pool, duration="4h", gang={"nodes": 2})
    mine = ask(pool, duration="1h")
    assert mine.state == "placed"
    clock.advance("121s")
    assert make.look(victim).reason == "preempted"
    assert DeviceBooking.objects.filter(during__endswith__gt=clock.now()).count() == 1
    let_go(victim)
    assert invariants.violations() == []


@pytest.mark.rule("R30")
def test_hosts_cpus_count_as_well_as_devices(clock):
    pool = make.pool(gpus=2)
    victim = spot(pool, duration="4h", resources={"vcpu": 150})
    mine = ask(pool, duration="1h", resources={"vcpu": 150})
    assert mine.state == "placed"
    assert conditions(victim) == {"Preempting": "SpotGivesWay"}
    assert invariants.violations() == []


@pytest.mark.rule("R33", "R22")
def test_its_notice_cannot_be_extended_away(clock):
    pool = make.pool(gpus=1)
    victim = spot(pool, duration="4h")
    mine = ask(pool, duration="1h")
    bob = cast.caller("bob")
    made = extension.extend(
        bob,
        ExtendRequest(tenant_id=bob.tenant_id, by="1h"),
        reservation_id=victim.pk,
        idempotency_key="longer",
    )
    assert (made.extended, made.available_until) == (False, mine.starts_at)
    assert extension.available_until(bob, reservation_id=victim.pk) == mine.starts_at


@pytest.mark.parametrize("leave", [ending.cancel, ending.release])
def test_it_is_called_off_when_whoever_needed_it_withdraws(clock, leave):
    pool = make.pool(gpus=1)
    victim = spot(pool, duration="4h")
    mine = ask(pool, duration="1h")
    leave(cast.caller("alice"), reservation_id=mine.pk)
    make.look_at_pool(pool)

    again = now_of(victim)
    assert again.ends_at == victim.ends_at
    assert conditions(victim) == {}
    assert events(victim)[-2:] == ["preempting", "spared"]
    assert Assignment.objects.get(owner_key=victim.pk).until == victim.ends_at
    assert invariants.violations() == []
    clock.advance("121s")
    assert make.look(victim).state == "active"


def test_it_is_not_called_off_when_somebody_else_needs_it(clock):
    pool = make.pool(gpus=1)
    victim = spot(pool, duration="4h")
    mine = ask(pool, duration="1h")
    rival = ask(pool, "carol", duration="1h")
    assert rival.state == "pending"
    ending.cancel(cast.caller("alice"), reservation_id=mine.pk)
    make.look_at_pool(pool)
    rival = now_of(rival)
    assert rival.state == "placed"
    assert now_of(victim).ends_at == mine.starts_at <= rival.starts_at
    assert events(victim).count("preempting") == 1
    assert "spared" not in events(victim)


def test_of_its_time_it_gets_back_what_is_free(clock):
    pool = make.pool(gpus=2)
    victim = spot(pool, duration="4h", gpus=2)
    mine = ask(pool, duration="1h")
    later = ask(pool, "carol", start=clock.now_ms() + 7_200_000, duration="1h", spot=True)
    assert later.state == "placed", "the victim's other device is free by then"
    ending.cancel(cast.caller("alice"), reservation_id=mine.pk)
    make.look_at_pool(pool)
    again = now_of(victim)
    assert again.ends_at == later.starts_at
    assert conditions(victim) == {"Preempting": "SpotGivesWay"}
    assert invariants.violations() == []


def test_a_victim_that_loses_its_node_before_it_is_due_begins_anew(clock):
    pool = make.pool(nodes=2, gpus=1, maxPriority=9)
    bob = cast.caller("bob")
    victim = make.look(make.reservation(bob, pool, spot=True, duration="4h"))
    spot(pool, "carol", duration="4h", priority=9)
    assert victim.state == "binding"
    mine = ask(pool, duration="1h")
    assert conditions(victim) == {"Preempting": "SpotGivesWay"}
    make.report(victim, ReportedState.FAILED, reason="resources-exhausted")
    victim = make.look(victim)
    assert victim.state == "pending"
    assert "Preempting" not in conditions(victim)
    assert now_of(mine).state == "placed"
    assert invariants.violations() == []


@pytest.mark.rule("R13")
def test_the_queued_placer_preempts_too(clock):
    pool = make.pool(gpus=1)
    Pool.objects.filter(pk=pool.pk).update(placer="queued")
    victim = make.reservation(cast.caller("bob"), pool, spot=True, duration="4h")
    make.look_at_pool(pool)
    assert make.look(victim).state == "binding"
    mine = ask(pool, duration="1h")
    assert mine.state == "pending"
    make.look_at_pool(pool)
    assert now_of(mine).state == "placed"
    assert conditions(victim) == {"Preempting": "SpotGivesWay"}


def test_one_that_gives_way_is_not_asked_again(clock):
    pool = make.pool(gpus=2)
    victim = spot(pool, duration="4h", gpus=2)
    mine = ask(pool, duration="1h")
    Pool.objects.filter(pk=pool.pk).update(policy={"spot": {"noticeSeconds": 10}})
    rival = ask(pool, "carol", duration="1h")
    assert rival.state == "pending", "its other device is free behind the notice that runs"
    assert now_of(victim).ends_at == mine.starts_at, "a notice that was given is kept"
    assert events(victim).count("preempting") == 1
