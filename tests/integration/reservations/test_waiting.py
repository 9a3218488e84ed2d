"""Why a reservation waits, where it stands, and when it could start: never a stale answer (R24)."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from bettercompute import clock as clocks
from bettercompute.coordination.models import WorkItem
from bettercompute.wire.waiting import Waiting
from pools import catalogue, preview
from pools.models import Placer, Pool
from reservations import ending, queries
from reservations.models import Reservation
from reservations.placing import estimates, line
from reservations.queries import Filters
from tests.conftest import SimulatedClock
from tests.support import cast, make

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.rule("R24"),
    pytest.mark.case(35),
]


def waiting(reservation: Reservation) -> Waiting:
    found = queries.answer(reservation.pk).waiting
    assert found is not None
    return found


def hours_ahead(instant_ms: int | None) -> float | None:
    return None if instant_ms is None else (instant_ms - clocks.now_ms()) / 3_600_000


def full_pool() -> tuple[Pool, list[Reservation]]:
    """Two cards, one taken for 4 hours and one for 8."""
    pool, alice = make.pool(nodes=1, gpus=2), cast.caller("alice")
    return pool, [make.reservation(alice, pool, duration=length) for length in ("4h", "8h")]


def test_it_tells_what_blocks_it_until_when_and_when_it_could_start(clock: SimulatedClock) -> None:
    pool, _ = full_pool()
    bob = cast.caller("bob")
    made = make.reservation(bob, pool, gpus=2)
    at_once = waiting(made)
    assert (at_once.position, at_once.line_length, at_once.gpus_ahead) == (1, 1, 0)
    assert at_once.tested_at == clock.now_ms()
    assert at_once.earliest_start is None, "not in the way of the create"

    told = waiting(make.look(made))
    (busy,) = told.reasons
    assert busy.filter == "busy"
    assert hours_ahead(busy.until) == 8
    assert hours_ahead(told.earliest_start) == 8
    assert told.earliest_tested_at == clock.now_ms()
    foreseen = preview.preview(bob, make.request(bob, pool, gpus=2))
    assert (told.reasons, told.earliest_start) == (foreseen.reasons, foreseen.earliest)


def test_what_is_given_back_early_is_seen_by_the_next_look(clock: SimulatedClock) -> None:
    pool, (four, eight) = full_pool()
    made = make.look(make.reservation(cast.caller("bob"), pool, gpus=2))
    assert hours_ahead(waiting(made).earliest_start) == 8

    ending.release(cast.caller("alice"), reservation_id=eight.pk)
    clock.advance("25s")
    make.look_at_pool(pool)
    outdated = waiting(made)
    assert hours_ahead(outdated.reasons[0].until) == pytest.approx(4 - 25 / 3600)
    assert outdated.earliest_start is None, "none rather than one that is no longer true"

    told = waiting(make.look(made))
    assert told.earliest_start == clocks.to_ms(four.ends_at)
    assert told.tested_at == told.earliest_tested_at == clock.now_ms()


def test_the_first_start_is_searched_for_again_only_when_it_is_old(clock: SimulatedClock) -> None:
    pool, _ = full_pool()
    made = make.look(make.reservation(cast.caller("bob"), pool, gpus=2))
    searched = waiting(made).earliest_tested_at
    clock.advance("30s")
    told = waiting(make.look(made))
    assert (told.tested_at, told.earliest_tested_at) == (clock.now_ms(), searched)
    clock.advance("5m")
    told = waiting(make.look(made))
    assert told.earliest_tested_at == clock.now_ms()


def test_a_long_line_is_searched_for_its_first_ones_only(
    clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimates, "FIRST_IN_LINE_MAX", 1)
    pool, _ = full_pool()
    first = make.reservation(cast.caller("bob"), pool, gpus=2)
    clock.advance("1s")
    second = make.reservation(cast.caller("bob"), pool, gpus=2)
    for made in (first, second):
        make.look(made)
    assert waiting(first).earliest_start is not None
    told = waiting(second)
    assert told.reasons, "why it waits is known of everyone"
    assert told.earliest_start is None


def test_places_go_by_priority_then_age_and_count_other_tenants_too(
    clock: SimulatedClock,
) -> None:
    pool, _ = full_pool()
    catalogue.offer(pool, cast.tenant("globex"))
    make.grant("globex", gpus=8)
    bob, mallory = cast.caller("bob"), cast.caller("mallory")
    old = make.reservation(bob, pool, gpus=2)
    clock.advance("1s")
    foreign = make.reservation(mallory, pool, gpus=1)
    clock.advance("1s")
    urgent = make.reservation(cast.caller("alice"), pool, gpus=2, priority=5)
    stand = {made.pk: waiting(made) for made in (urgent, old, foreign)}
    assert [told.position for told in stand.values()] == [1, 2, 3]
    assert [told.gpus_ahead for told in stand.values()] == [0, 2, 4]
    assert {told.line_length for told in stand.values()} == {3}


def test_a_list_asks_once_for_all_places_and_not_at_all_where_nobody_waits() -> None:
    pool, _ = full_pool()
    alice = cast.caller("alice")

    def statements() -> int:
        with CaptureQueriesContext(connection) as sent:
            page = queries.page(alice, Filters("all"))
        assert [item.waiting is not None for item in page.items] == [
            item.state == "pending" for item in page.items
        ]
        return len(sent)

    nobody = statements()
    for _ in range(3):
        make.reservation(cast.caller("bob"), pool, gpus=2)
    assert statements() == nobody + 1


def test_it_ends_with_the_wait(clock: SimulatedClock) -> None:
    pool, (four, _) = full_pool()
    placed, given_up = (make.reservation(cast.caller("bob"), pool, gpus=1) for _ in range(2))
    alice, bob = cast.caller("alice"), cast.caller("bob")
    ending.cancel(bob, reservation_id=given_up.pk)
    ending.release(alice, reservation_id=four.pk)
    make.look_at_pool(pool)
    for made, state in ((placed, "placed"), (given_up, "cancelled")):
        made.refresh_from_db()
        assert (made.state, made.waiting) == (state, None)
        assert queries.answer(made.pk).waiting is None


@pytest.mark.rule("R13")
def test_one_in_a_queue_is_woken_to_learn_when_it_could_start(clock: SimulatedClock) -> None:
    pool, _ = full_pool()
    make.placed_by(Placer.QUEUED, pool)
    made = make.reservation(cast.caller("bob"), pool, gpus=2)
    queued = waiting(made)
    assert (queued.position, queued.reasons, queued.tested_at) == (1, [], None)
    WorkItem.objects.filter(kind="reservation", key=made.pk).delete()

    line.reconcile(pool.pk, make.fence)
    told = waiting(made)
    assert hours_ahead(told.reasons[0].until) == 8
    assert told.earliest_start is None
    woken = WorkItem.objects.get(kind="reservation", key=made.pk)
    assert woken.not_before <= clock.now()
    assert hours_ahead(waiting(make.look(made)).earliest_start) == 8


@pytest.mark.rule("C2")
def test_what_was_seen_is_no_version_but_another_answer(clock: SimulatedClock) -> None:
    pool, _ = full_pool()
    made = make.look(make.reservation(cast.caller("alice"), pool, gpus=2))
    api, path = cast.api("alice"), f"/reservations/{made.pk}"
    first = api.get(path)
    assert api.get(path, If_None_Match=first["ETag"]).status_code == 304
    clock.advance("31s")
    make.look(made)
    second = api.get(path, If_None_Match=first["ETag"])
    assert second.status_code == 200
    assert second.json()["version"] == first.json()["version"]
    assert second.json()["waiting"]["testedAt"] == clock.now_ms()
    ended = api.post(f"{path}/cancel", {"tenantId": made.tenant_id}, If_Match=first["ETag"])
    assert ended.json()["state"] == "cancelled"


def test_what_no_time_helps_against_has_no_first_start() -> None:
    pool, _ = full_pool()
    made = make.look(make.reservation(cast.caller("bob"), pool, gpus=3))
    told = waiting(made)
    assert {reason.filter for reason in told.reasons} == {"class"}
    assert (told.earliest_start, told.earliest_tested_at) == (None, None)
