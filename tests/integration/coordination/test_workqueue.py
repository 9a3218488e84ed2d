from datetime import timedelta

import pytest

from bettercompute.coordination import workqueue
from bettercompute.coordination.models import WorkItem
from tests.support import plans

pytestmark = pytest.mark.django_db

ALL = range(workqueue.SHARDS)


def claim_one():
    (claim,) = workqueue.claim(ALL, limit=10)
    return claim


@pytest.mark.rule("C25")
def test_waking_a_key_twice_is_one_row_with_a_higher_generation():
    workqueue.enqueue("node", "node_a")
    workqueue.enqueue("node", "node_a")
    item = WorkItem.objects.get()
    assert (item.kind, item.key, item.gen) == ("node", "node_a", 2)
    assert item.shard == workqueue.shard_of("node_a")


@pytest.mark.rule("C25")
def test_the_earlier_of_two_times_wins(clock):
    tomorrow = clock.now() + timedelta(days=1)
    workqueue.enqueue("node", "node_a", not_before=tomorrow)
    workqueue.enqueue("node", "node_a")
    assert WorkItem.objects.get().not_before == clock.now()
    workqueue.enqueue("node", "node_a", not_before=tomorrow)
    assert WorkItem.objects.get().not_before == clock.now()


def test_many_keys_are_one_statement_and_a_repeated_key_is_one_row(
    clock, django_assert_num_queries
):
    later = clock.now() + timedelta(hours=1)
    with django_assert_num_queries(1):
        workqueue.enqueue_many([("b", "2", None), ("a", "1", later), ("b", "2", later)])
    times = WorkItem.objects.order_by("kind").values_list("kind", "not_before")
    assert list(times) == [("a", later), ("b", clock.now())]


def test_nothing_to_wake_is_no_statement(django_assert_num_queries):
    with django_assert_num_queries(0):
        workqueue.enqueue_many([])


@pytest.mark.rule("C26")
def test_a_run_that_succeeds_deletes_its_row():
    workqueue.enqueue("node", "node_a")
    assert workqueue.finish(claim_one())
    assert not WorkItem.objects.exists()


@pytest.mark.rule("C26")
def test_a_wake_up_during_the_run_survives_and_runs_again():
    workqueue.enqueue("node", "node_a")
    claim = claim_one()
    workqueue.enqueue("node", "node_a")  # somebody changed the state meanwhile
    assert workqueue.claim(ALL, limit=10) == []  # one run at a time
    assert not workqueue.finish(claim)
    again = claim_one()
    assert again.gen == claim.gen + 1
    assert workqueue.finish(again)


@pytest.mark.rule("C26")
def test_a_wake_up_during_a_run_that_asks_for_later_still_runs_now(clock):
    workqueue.enqueue("node", "node_a")
    claim = claim_one()
    workqueue.enqueue("node", "node_a")
    assert not workqueue.finish(claim, next_at=clock.now() + timedelta(days=1))
    assert claim_one().gen == claim.gen + 1


@pytest.mark.rule("C26")
def test_a_late_finish_cannot_delete_a_row_that_was_made_anew():
    workqueue.enqueue("node", "node_a")
    zombie = claim_one()
    workqueue.unclaim(ALL)  # the shard has a new holder
    assert workqueue.finish(claim_one())
    workqueue.enqueue("node", "node_a")  # generation 1 again
    assert not workqueue.finish(zombie)
    assert WorkItem.objects.get().gen == zombie.gen


def test_a_run_may_ask_to_look_again_later(clock):
    workqueue.enqueue("node", "node_a")
    assert workqueue.finish(claim_one(), next_at=clock.now() + timedelta(minutes=5))
    assert workqueue.claim(ALL, limit=10) == []
    clock.advance("5m")
    claim_one()


@pytest.mark.rule("C26")
def test_a_failure_backs_off_with_jitter_and_stays_visible(clock):
    workqueue.enqueue("node", "node_a")
    workqueue.fail(claim_one(), "Boom: no")
    item = WorkItem.objects.get()
    assert (item.attempts, item.last_error, item.claimed_until) == (1, "Boom: no", None)
    assert timedelta(seconds=0.5) <= item.not_before - clock.now() <= timedelta(seconds=1)
    clock.advance("1s")
    assert claim_one().attempts == 1


@pytest.mark.rule("C25", "C26")
def test_a_wake_up_during_a_run_that_fails_is_not_put_off(clock):
    workqueue.enqueue("node", "node_a")
    claim = claim_one()
    workqueue.enqueue("node", "node_a")  # what was missing has come
    workqueue.fail(claim, "Boom: no")
    again = claim_one()
    assert (again.gen, again.attempts) == (2, 1)
    workqueue.fail(again, "Boom: still not")  # nothing came: now it waits
    assert workqueue.claim(ALL, limit=1) == []


@pytest.mark.rule("C26")
def test_backoff_grows_to_five_minutes_and_differs_between_rows():
    assert all(0.5 <= workqueue.backoff_seconds(0) <= 1 for _ in range(50))
    assert all(150 <= workqueue.backoff_seconds(40) <= 300 for _ in range(50))
    assert len({workqueue.backoff_seconds(5) for _ in range(20)}) > 1


@pytest.mark.rule("C26")
def test_a_poisoned_row_is_never_dropped_and_is_listed(clock):
    workqueue.enqueue("node", "node_a")
    for _ in range(12):
        clock.advance("5m")
        workqueue.fail(claim_one(), "Boom: always")
    (failing,) = workqueue.failing(attempts_min=10)
    assert (failing.key, failing.attempts, failing.last_error) == ("node_a", 12, "Boom: always")
    assert failing.age == timedelta(minutes=55)
    clock.advance("5m")
    workqueue.finish(claim_one(), next_at=clock.now())
    workqueue.fail(claim_one(), "Boom: once more")
    (failing,) = workqueue.failing(attempts_min=1)
    assert (failing.attempts, failing.age) == (1, timedelta(0))


def test_success_forgets_earlier_failures(clock):
    workqueue.enqueue("node", "node_a")
    workqueue.fail(claim_one(), "Boom: once")
    clock.advance("1s")
    workqueue.finish(claim_one(), next_at=clock.now())
    assert claim_one().attempts == 0


@pytest.mark.rule("C27")
def test_overdue_work_is_claimed_in_time_order(clock):
    shard = workqueue.shard_of("a")
    keys = [key for key in map(str, range(400)) if workqueue.shard_of(key) == shard][:6]
    for minutes, key in zip((50, 10, 30, 60, 20, 40), keys, strict=True):
        when = clock.now() + timedelta(minutes=minutes)
        workqueue.enqueue("reservation", key, not_before=when)
    clock.advance("2h")  # an outage
    claims = workqueue.claim([shard], limit=4) + workqueue.claim([shard], limit=4)
    assert [c.not_before for c in claims] == sorted(c.not_before for c in claims)
    assert len(claims) == 6


@pytest.mark.rule("C26")
def test_only_the_named_shards_are_claimed():
    workqueue.enqueue("node", "node_a")
    mine = workqueue.shard_of("node_a")
    others = [shard for shard in ALL if shard != mine]
    assert workqueue.claim(others, limit=10) == []
    assert workqueue.due_shards(ALL) == [mine]
    assert len(workqueue.claim([mine], limit=10)) == 1


def test_a_claim_lapses_by_itself(clock):
    workqueue.enqueue("node", "node_a")
    claim_one()
    clock.advance("1m")
    claim_one()


@pytest.mark.rule("C27")
@pytest.mark.case(17)
def test_a_look_at_the_queue_costs_the_same_however_many_rows_are_due(clock):
    """It is done before every batch: in 20,000 ends at once, 2,500 times."""
    now = clock.now()
    workqueue.enqueue_many(("reservation", f"rsv_{n}", now) for n in range(5_000))
    clock.advance("1s")
    look = workqueue.WORKQUEUE.texts["due_shards"]
    assert plans.rows_read(look, "work_queue", shards=list(ALL)) == workqueue.SHARDS
    assert len(workqueue.due_shards(ALL)) == workqueue.SHARDS


@pytest.mark.rule("C27")
def test_the_lag_says_how_much_is_overdue_and_since_when(clock):
    assert workqueue.lag() == (0, timedelta(0))
    workqueue.enqueue("node", "node_a")
    workqueue.enqueue("node", "node_b", not_before=clock.now() + timedelta(hours=1))
    clock.advance("10m")
    assert workqueue.lag() == (1, timedelta(minutes=10))


def test_an_error_with_nul_bytes_or_of_any_length_is_kept():
    workqueue.enqueue("node", "node_a")
    workqueue.fail(claim_one(), "a\x00b" + "x" * 10_000)
    error = WorkItem.objects.get().last_error
    assert error.startswith("abx")
    assert len(error) < 2_001
