"""Planned maintenance: what is booked next keeps clear of it, what is there stays (N18)."""

from datetime import timedelta

import pytest

from bettercompute import clock as clocks
from bettercompute import errors
from bettercompute.wire.reservations import ExtendRequest
from nodes import maintenance
from nodes.maintenance import Window
from nodes.models import DeviceBooking, MaintenanceWindow, Node
from nodes.operations import maintenance as operation
from nodes.operations.maintenance import Planned
from outbox.models import Event
from pools import preview, supply
from pools import queries as queries_of_pools
from pools.models import Pool
from reservations import conditions, queries
from reservations.conditions import ConditionType
from reservations.extending import extension
from reservations.models import Reservation
from reservations.pages import calendar
from tests.support import cast, invariants, make

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("N18", "R18")]

HOUR_MS = 3_600_000


def announce(
    pool: Pool,
    *,
    starts_in: float = 1,
    hours: float = 2,
    node: str | None = None,
    who: str = "alice",
) -> Window:
    """Maintenance of a node, or of the whole pool, so many hours from now."""
    caller = cast.caller(who)
    start = clocks.from_ms(clocks.now_ms() + int(starts_in * HOUR_MS))
    planned = Planned(start, start + timedelta(hours=hours), "new power supplies")
    at = operation.access(caller, pool_id=None if node else pool.pk, node_id=node)
    window = operation.announce(caller, at, planned).window
    assert window is not None
    return window


def book(pool: Pool, *, starts_in: float = 0, **changes: object) -> Reservation:
    if starts_in:
        changes["start"] = clocks.now_ms() + int(starts_in * HOUR_MS)
    return make.reservation(cast.caller("alice"), pool, **changes)


def host(reservation: Reservation) -> str:
    live = reservation.allocations.filter(state__in=["placed", "binding", "bound"])
    return live.get().node_id


def degraded(reservation: Reservation) -> str:
    found = conditions.find(
        Reservation.objects.get(pk=reservation.pk).conditions, ConditionType.DEGRADED
    )
    return "" if found is None else str(found["reason"])


@pytest.mark.parametrize("changes", [{}, {"gang": {"nodes": 1}}], ids=["narrowed", "whole"])
def test_new_bookings_plan_around_a_node_that_is_worked_on(clock, changes):
    pool = make.pool(nodes=2)
    worked_on, other = Node.objects.order_by("pk").values_list("pk", flat=True)
    announce(pool, node=worked_on)
    for starts_in, duration in ((0, "61m"), (1, "1h"), (2.5, "1h"), (0.5, "8h")):
        made = book(pool, starts_in=starts_in, duration=duration, **changes)
        assert (made.state, host(made)) == ("placed", other), (starts_in, duration)
    assert book(pool, gang={"nodes": 2}, starts_in=0.5).state == "pending"
    assert invariants.violations() == []


def test_a_booking_may_touch_both_ends_of_it(clock):
    pool = make.pool(nodes=1)
    window = announce(pool)
    before = book(pool, gpus=8)
    behind = book(pool, gpus=8, starts_in=3)
    assert before.ends_at == window.start
    assert behind.starts_at == window.end
    assert {before.state, behind.state} == {"placed"}


@pytest.mark.rule("R20")
def test_a_preview_says_why_and_until_when(clock):
    pool = make.pool(nodes=2)
    window = announce(pool)
    alice = cast.caller("alice")
    found = preview.preview(alice, make.request(alice, pool, duration="90m"))
    assert not found.fits
    (reason,) = found.reasons
    assert (reason.filter, reason.nodes) == ("state", 2)
    assert reason.needs == "a node without maintenance in that time"
    assert reason.until == found.earliest == clocks.to_ms(window.end)
    pending = book(pool, duration="90m")
    assert pending.state == "pending"
    assert "without maintenance" in pending.conditions[0]["message"]


@pytest.mark.rule("R20")
def test_the_first_start_minds_maintenance_that_lies_over_bookings(clock):
    """Each may go on behind the other."""
    pool = make.pool(nodes=1, gpus=1)
    alice = cast.caller("alice")
    book(pool, duration="4h")
    announce(pool, starts_in=1, hours=2)
    announce(pool, starts_in=1.5, hours=6)
    announce(pool, starts_in=8.5, hours=1)
    wanted = make.request(alice, pool, duration="2h")
    assert preview.preview(alice, wanted).earliest == clocks.now_ms() + int(9.5 * HOUR_MS)


@pytest.mark.rule("R22", "R33")
def test_an_extension_ends_before_it(clock):
    pool = make.pool(nodes=1)
    held = make.active(cast.caller("alice"), pool)
    window = announce(pool, starts_in=1.5)
    asked = ExtendRequest(tenant_id=cast.tenant().pk, by="45m")

    def extend(by: str) -> extension.Extended:
        return extension.extend(
            cast.caller("alice"),
            asked.model_copy(update={"by": by}),
            reservation_id=held.pk,
            idempotency_key=make.key(),
        )

    refused = extend("45m")
    assert (refused.extended, refused.available_until) == (False, window.start)
    assert extension.available_until(cast.caller("alice"), reservation_id=held.pk) == window.start
    assert extend("30m").extended
    assert degraded(make.look(held)) == ""
    assert invariants.violations() == []


def test_what_is_active_stays_and_says_so_until_it_is_called_off(clock):
    pool = make.pool(nodes=2)
    held = make.active(cast.caller("alice"), pool, duration="8h")
    before = host(held)
    window = announce(pool, node=before)
    looked = make.look(held)
    assert (looked.state, host(looked)) == ("active", before)
    assert degraded(looked) == "NodeMaintenance"
    event = Event.objects.get(type="reservation.maintenance")
    assert (event.tenant_id, event.data["reason"]) == (held.tenant_id, "new power supplies")
    assert event.data["start"] == clocks.to_ms(window.start)
    assert make.look(held).version == looked.version, "and once only"
    operation.cancel(cast.caller("alice"), window.id)
    assert degraded(make.look(held)) == ""


def test_what_has_not_started_is_moved_before_it_does(clock):
    pool = make.pool(nodes=2)
    ahead = book(pool, starts_in=2)
    worked_on = host(ahead)
    announce(pool, node=worked_on, starts_in=2.5)
    looked = make.look(ahead)
    assert (host(looked), degraded(looked)) == (worked_on, "NodeMaintenance")
    clock.advance("1h45m")
    moved = make.look(ahead)
    assert host(moved) != worked_on
    assert degraded(moved) == ""
    assert (moved.starts_at, moved.ends_at) == (ahead.starts_at, ahead.ends_at)
    assert invariants.violations() == []


def test_it_lists_whom_it_meets_and_those_who_wait_are_tried_when_it_is_called_off(clock):
    pool = make.pool(nodes=1)
    held = make.active(cast.caller("bob"), pool, duration="8h")
    ended = make.active(cast.caller("bob"), pool, duration="30m")
    window = announce(pool)
    found = maintenance.meeting(window.place, start=window.start, end=window.end)
    assert [(each.owner_key, each.start, each.end) for each in found] == [
        (held.pk, held.starts_at, held.ends_at)
    ]
    assert ended.ends_at is not None
    waiting = book(pool, duration="3h")
    assert waiting.state == "pending"
    operation.cancel(cast.caller("alice"), window.id)
    make.look_at_pool(pool)
    assert Reservation.objects.get(pk=waiting.pk).state == "placed"
    told = Event.objects.filter(type__startswith="pool.maintenance").order_by("seq")
    assert [(event.type, event.data["maintenanceId"]) for event in told] == [
        ("pool.maintenance-announced", window.id),
        ("pool.maintenance-cancelled", window.id),
    ]


def test_announcing_it_again_changes_nothing(clock):
    pool = make.pool(nodes=1)
    first, second = announce(pool), announce(pool)
    assert second == first
    assert MaintenanceWindow.objects.count() == 1
    operation.cancel(cast.caller("alice"), first.id)
    assert announce(pool).id != first.id, "but one that was called off"


FOREVER_MS = 253_402_300_799_999


@pytest.mark.parametrize(
    ("changes", "paths"),
    [
        ({"start": FOREVER_MS, "duration": "1h"}, ["start"]),
        ({"start": FOREVER_MS, "end": FOREVER_MS}, ["start"]),
        ({"start": "9999-12-31T23:59:59-14:00", "duration": "1h"}, ["start"]),
        (
            {"start": "0001-01-01T00:00:00+14:00", "end": "0001-01-01T00:00:00+13:00"},
            ["start", "end"],
        ),
        ({"start": "2026-03-03T09:00:00Z", "duration": "999999999999999w"}, ["duration"]),
        ({"start": "2026-03-03T09:00:00Z", "end": "2026-03-03T09:00:00Z"}, ["end"]),
    ],
)
def test_what_is_wrong_with_its_time_is_named(clock, changes, paths):
    pool = make.pool()
    body = {"tenantId": cast.tenant().pk, "reason": "x", "preview": True, **changes}
    answered = cast.api("alice").post(f"/pools/{pool.pk}/maintenance", body)
    problem = cast.problem(answered, 400, "INVALID_INPUT")
    assert [each["path"] for each in problem["details"]["errors"]] == paths


def test_only_who_owns_the_pool_or_runs_the_platform_may(clock):
    pool = make.pool(nodes=1)
    node = Node.objects.get(pool=pool).pk
    window = announce(pool)
    for named in ({"pool_id": pool.pk}, {"node_id": node}):
        for name, refusal in (("bob", errors.AccessDenied), ("mallory", errors.NotFound)):
            with pytest.raises(refusal):
                operation.access(cast.caller(name), **named)
            with pytest.raises(refusal):
                operation.cancel(cast.caller(name), window.id)
        operation.access(cast.caller("olga"), **named)
    operation.cancel(cast.caller("olga"), window.id)


@pytest.mark.rule("C39")
def test_a_booking_over_it_is_found(clock):
    pool = make.pool(nodes=1, gpus=1)
    held = make.active(cast.caller("alice"), pool, duration="8h")
    window = announce(pool)
    assert invariants.violations() == []
    MaintenanceWindow.objects.filter(pk=window.id).update(last_booking_id=0)
    (found,) = invariants.violations()
    assert found.startswith("maintenance.booked-over")
    assert DeviceBooking.objects.get().allocation_id in found
    assert queries.answer(held.pk).state == "active"


@pytest.mark.rule("U5")
def test_the_pools_page_lists_it_and_draws_it_where_nothing_is_booked(clock):
    pool = make.pool(nodes=2, gpus=2)
    held = make.active(cast.caller("bob"), pool, duration="2h", gpus=2)
    announce(pool, node=host(held), starts_in=1, hours=4)
    page = cast.session("alice").get(f"/pools/{pool.pk}").content.decode()
    assert "new power supplies" in page
    assert "Nothing new is booked over it." in page
    assert "tl-block tl-maintenance" in page
    scale = {"start": clocks.now(), "end": clocks.now() + timedelta(hours=12)}
    devices = supply.devices(pool.pk)
    found = calendar.occupied(cast.caller("alice"), pool.pk, devices, **scale)
    works = [each for each in found if each.whose == "maintenance"]
    assert {each.device_id for each in works} == set(held.allocations.get().device_ids)
    assert {each.start for each in works} == {held.ends_at}, "behind what stays"


@pytest.mark.rule("U5")
def test_devices_that_are_worked_on_are_not_free_now(clock):
    pool = make.pool(nodes=2, gpus=2)
    held = make.active(cast.caller("bob"), pool, duration="1h")
    worked_on = host(held)
    window = announce(pool, node=worked_on, starts_in=0.5, hours=4)
    alice = cast.caller("alice")
    assert queries_of_pools.get(alice, pool.pk).free == 3
    clock.advance("45m")
    shown = queries_of_pools.get(alice, pool.pk)
    assert (shown.free, shown.next_free_at) == (2, clocks.to_ms(window.end))
    found = supply.access(alice, pool.pk)
    booked = supply.booked([found], start=clocks.now(), end=clocks.now() + timedelta(hours=8))
    assert [end for _, end in booked[pool.pk]] == [window.end, window.end], "each device once"
