from datetime import timedelta
from typing import Any

import pytest

from bettercompute import clock as clocks
from bettercompute import errors, wiring
from bettercompute.coordination.runner import Runner
from bettercompute.iam import policies, projection
from bettercompute.iam.models import AuthzChange, AuthzResource
from bettercompute.wire.reservations import ExtendRequest
from nodes import desired
from nodes.models import DeviceBooking, ResourceBooking
from outbox.models import Event
from reservations import ending, rights
from reservations.extending import extension
from reservations.extending.extension import Extended
from reservations.models import ExtendHold, Reservation
from tests.support import cast, invariants, make

pytestmark = pytest.mark.django_db(transaction=True)

HOUR = timedelta(hours=1)
TWO_HOURS = """
forbid (principal, action == Action::"compute:reservations:extend", resource)
when { context.durationMinutes > 120 };
"""


def extend(
    reservation: Reservation, *, who: str = "alice", key: str = "", **wanted: Any
) -> Extended:
    caller = cast.caller(who)
    request = ExtendRequest(tenant_id=caller.tenant_id, **wanted)
    return extension.extend(
        caller,
        request,
        reservation_id=reservation.pk,
        idempotency_key=key or make.key(),
    )


@pytest.mark.rule("R33", "R12")
def test_every_end_moves_together(clock):
    alice = cast.caller("alice")
    reservation = make.active(alice, make.pool(nodes=2), gpus=2, gang={"nodes": 2}, duration="1h")
    made = extend(reservation, by="30m")

    assert made.extended
    assert made.reservation.ends_at == reservation.ends_at + HOUR / 2
    assert made.reservation.state == "active"
    assert max(b.during.upper for b in DeviceBooking.objects.all()) == made.reservation.ends_at
    assert max(b.during.upper for b in ResourceBooking.objects.all()) == made.reservation.ends_at
    for allocation in made.reservation.allocations.all():
        (wanted,) = desired.read(allocation.node_id).assignments
        assert wanted.until_ms == clocks.to_ms(made.reservation.ends_at)
    event = Event.objects.get(type="reservation.extended")
    assert event.data["end"] == clocks.to_ms(made.reservation.ends_at)
    assert invariants.violations() == []


@pytest.mark.rule("R33")
def test_it_ends_and_is_released_as_if_it_had_always_been_so_long(clock):
    alice = cast.caller("alice")
    reservation = make.active(alice, make.pool(), duration="1h")
    extend(reservation, by="1h")
    extend(reservation, by="1h")
    clock.advance("90m")
    assert make.look(reservation).state == "active"
    ended = ending.release(alice, reservation_id=reservation.pk)
    assert ended.ends_at == clock.now()
    assert invariants.violations() == []
    clock.advance("10m")
    assert invariants.violations() == []


@pytest.mark.rule("R33", "C9")
@pytest.mark.case(15)
def test_where_another_comes_next_nothing_changes_and_it_says_until_when(clock):
    alice = cast.caller("alice")
    pool = make.pool(nodes=1, gpus=2)
    mine = make.active(alice, pool, gpus=2, duration="1h")
    later = clocks.to_ms(mine.ends_at + HOUR / 2)
    theirs = make.reservation(alice, pool, gpus=1, duration="1h", start=later)
    before = list(DeviceBooking.objects.order_by("id").values_list("id", "during"))

    made = extend(mine, by="1h")

    assert not made.extended
    assert made.available_until == theirs.starts_at
    assert made.reservation.ends_at == mine.ends_at
    assert made.reservation.version == mine.version
    assert list(DeviceBooking.objects.order_by("id").values_list("id", "during")) == before
    assert AuthzResource.objects.get(pk=mine.pk).pending is None
    assert extend(mine, until=later).extended, "up to the other's start it touches and fits"
    assert invariants.violations() == []


@pytest.mark.rule("R33", "C12")
def test_a_host_without_room_bounds_it_too(clock):
    alice = cast.caller("alice")
    pool = make.pool(nodes=1, gpus=4, perGpu={"vcpu": 1, "memoryGiB": 1})
    mine = make.active(alice, pool, duration="1h", resources={"vcpu": 150})
    start = clocks.to_ms(mine.ends_at + HOUR / 4)
    theirs = make.reservation(alice, pool, duration="1h", start=start, resources={"vcpu": 150})
    assert theirs.state == "placed"
    made = extend(mine, by="1h")
    assert (made.extended, made.available_until) == (False, theirs.starts_at)
    assert extension.available_until(alice, reservation_id=mine.pk) == theirs.starts_at


@pytest.mark.rule("R22")
def test_until_when_is_answered_for_what_can_be_extended(clock):
    alice = cast.caller("alice")
    mine = make.reservation(alice, make.pool())
    assert extension.available_until(alice, reservation_id=mine.pk) is None
    ending.release(alice, reservation_id=mine.pk)
    with pytest.raises(errors.InvalidState):
        extension.available_until(alice, reservation_id=mine.pk)


@pytest.mark.rule("R33")
def test_an_end_already_reached_is_false_without_a_decision(clock, monkeypatch):
    mine = make.reservation(cast.caller("alice"), make.pool())
    asked = []
    monkeypatch.setattr(rights, "may_extend", lambda *_, **__: asked.append(1))
    assert not extend(mine, until=clocks.to_ms(mine.ends_at)).extended
    assert asked == []


@pytest.mark.rule("R33", "R8")
def test_a_key_extends_once(clock):
    mine = make.active(cast.caller("alice"), make.pool(), duration="1h")
    first = extend(mine, key="once", by="1h")
    second = extend(mine, key="once", by="60m")
    assert first.extended
    assert second.extended
    assert second.reservation.ends_at == mine.ends_at + HOUR
    with pytest.raises(errors.Conflict) as refused:
        extend(mine, key="once", by="2h")
    assert refused.value.details["reservationId"] == mine.pk


@pytest.mark.rule("R33")
def test_only_a_refusal_is_decided_again(clock):
    alice = cast.caller("alice")
    pool = make.pool(nodes=1, gpus=1)
    mine = make.active(alice, pool, duration="1h")
    theirs = make.reservation(alice, pool, start=clocks.to_ms(mine.ends_at))
    assert not extend(mine, key="again", by="1h").extended
    ending.cancel(alice, reservation_id=theirs.pk)
    assert extend(mine, key="again", by="1h").extended


@pytest.mark.rule("R12", "R33")
def test_the_total_duration_is_decided_on_and_a_refusal_leaves_nothing(clock):
    alice = cast.caller("alice")
    policies.create(alice, draft=policies.Draft("two-hours", TWO_HOURS))
    mine = make.active(alice, make.pool(), duration="1h")
    assert extend(mine, by="1h").extended
    with pytest.raises(errors.AccessDenied):
        extend(mine, by="1m")
    assert AuthzResource.objects.get(pk=mine.pk).pending is None
    assert not ExtendHold.objects.exists()
    assert projection.attributes_of(mine.pk)["duration_minutes"] == 120
    states = [change.state for change in AuthzChange.objects.order_by("seq")]
    assert [state["pending"] for state in states[-2:]] == [{"durationMinutes": 121}, None]


@pytest.mark.rule("R12")
def test_the_pools_limit_bounds_the_whole_duration(clock):
    mine = make.active(cast.caller("alice"), make.pool(maxDuration="90m"), duration="1h")
    with pytest.raises(errors.AccessDenied, match="1h 30m"):
        extend(mine, by="31m")
    assert extend(mine, by="30m").extended


@pytest.mark.rule("R33")
@pytest.mark.case(16)
@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"until": 1, "by": 1},
        {"by": 0},
        {"by": "-1h"},
        {"by": "soon"},
        {"by": "2000w"},
        {"by": 2**63},
        {"until": "9999-12-31T23:59:59-23:00"},
        {"until": "tomorrow"},
        {"until": "2026-03-02T12:00:00"},
    ],
    ids=str,
)
def test_what_is_no_later_end_is_refused_and_changes_nothing(clock, wanted):
    mine = make.reservation(cast.caller("alice"), make.pool())
    with pytest.raises(errors.InvalidInput) as refused:
        extend(mine, **wanted)
    assert refused.value.details["errors"][0]["path"] in {"until", "by"}
    mine_now = Reservation.objects.get(pk=mine.pk)
    assert (mine_now.version, mine_now.ends_at) == (mine.version, mine.ends_at)
    assert not ExtendHold.objects.exists()


@pytest.mark.rule("R33")
def test_what_waits_has_ended_or_is_over_is_not_extended(clock):
    alice = cast.caller("alice")
    pool = make.pool(nodes=1, gpus=1)
    mine = make.active(alice, pool, duration="1h")
    waiting = make.reservation(alice, pool)
    clock.advance("1h")
    for reservation in (waiting, mine):
        with pytest.raises(errors.InvalidState):
            extend(reservation, by="1h")


@pytest.mark.rule("R38")
def test_another_tenants_reservation_is_not_found_and_a_members_is_extended(clock):
    mine = make.reservation(cast.caller("alice"), make.pool())
    with pytest.raises(errors.NotFound):
        extend(mine, who="mallory", by="1h")
    assert extend(mine, who="bob", by="1h").extended


@pytest.mark.rule("R25", "R33")
def test_the_notice_of_the_end_is_given_again_before_the_new_end(clock):
    mine = make.active(cast.caller("alice"), make.pool(), duration="1h")
    clock.advance("50m")
    assert make.look(mine).conditions[0]["type"] == "EndingSoon"
    extend(mine, by="1h")
    assert make.look(mine).conditions == []
    clock.advance("1h")
    assert make.look(mine).conditions[0]["type"] == "EndingSoon"
    assert Event.objects.filter(type="reservation.ending").count() == 2


@pytest.mark.rule("R33")
def test_an_instant_before_all_calendars_is_refused_at_its_field(clock):
    mine = make.reservation(cast.caller("alice"), make.pool())
    with pytest.raises(errors.InvalidInput, match="until: must be from 1970 to 9999"):
        extend(mine, until="0001-01-01T00:00:00+14:00")


@pytest.mark.rule("R25", "R33")
def test_a_short_extension_does_not_put_the_notice_off_to_the_old_end(clock):
    mine = make.active(cast.caller("alice"), make.pool(), duration="1h")
    runner = Runner(wiring.reconcilers())
    clock.advance("52m")
    runner.drain()
    extend(mine, by="10m")
    clock.advance("3m")
    runner.drain()
    (ending_soon,) = Reservation.objects.get(pk=mine.pk).conditions
    assert ending_soon["type"] == "EndingSoon"
    assert Event.objects.filter(type="reservation.ending").count() == 2
