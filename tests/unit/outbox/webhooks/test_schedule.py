"""When a delivery is tried again, over all that may come (A6)."""

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outbox.webhooks import schedule

pytestmark = pytest.mark.rule("A6")

LUCK = st.floats(0, 1, exclude_max=True)
#: A machine that is busy with other things draws slowly.
quick = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=50)
ASKED = st.none() | st.timedeltas(timedelta(0), timedelta(days=365))


@quick
@given(st.lists(LUCK, min_size=9, max_size=9))
def test_the_last_try_comes_after_an_endpoint_may_be_disabled_and_within_four_days(luck):
    waits = [schedule.next_try(tries, luck=each) for tries, each in enumerate(luck, start=1)]
    total = sum(waits, timedelta(0))
    assert schedule.DISABLE_AFTER < total < timedelta(days=4)
    assert schedule.next_try(schedule.TRIES_MAX, luck=0.0) is None


@quick
@given(st.integers(1, 9), LUCK, ASKED)
def test_what_is_asked_for_only_makes_it_later_and_within_bounds(tries, luck, asked):
    wait = schedule.next_try(tries, luck=luck, retry_after=asked)
    own = schedule.next_try(tries, luck=luck)
    assert own <= wait <= max(own, schedule.RETRY_AFTER_MAX)
    if asked is not None and asked <= schedule.RETRY_AFTER_MAX:
        assert wait >= asked


@quick
@given(st.integers(1, 8), LUCK, LUCK)
def test_each_wait_is_longer_than_the_one_before(tries, luck, later):
    assert schedule.next_try(tries, luck=luck) < schedule.next_try(tries + 1, luck=later)


@quick
@given(st.integers(0, 10**9), ASKED)
def test_an_endpoint_is_left_alone_for_a_minute_at_most_unless_it_asks(failures, asked):
    pause = schedule.pause(failures, retry_after=asked)
    assert timedelta(seconds=1) <= pause
    assert pause <= max(schedule.PAUSE_MAX, min(asked or timedelta(0), schedule.RETRY_AFTER_MAX))
    assert schedule.pause(failures + 1) >= schedule.pause(failures)
