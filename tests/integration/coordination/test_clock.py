from datetime import timedelta

import pytest
from django.db import connection

from bettercompute import clock as clock_module


@pytest.mark.rule("C5")
def test_simulated_time_stands_still_until_it_is_advanced(clock):
    before = clock.now()
    assert clock.now() == before
    clock.advance("15m")
    assert clock.now() == before + timedelta(minutes=15)


@pytest.mark.rule("C4")
def test_sql_and_python_read_the_same_clock(clock):
    clock.advance("3h")
    with connection.cursor() as cursor:
        cursor.execute("SELECT compute_now()")
        (in_sql,) = cursor.fetchone()
    assert in_sql == clock_module.now()


@pytest.fixture
def _anchored(monkeypatch):
    """A process in production: it anchors to the database instead of asking each time."""
    monkeypatch.setattr(clock_module, "_process", clock_module._Process())


@pytest.mark.rule("C7")
@pytest.mark.usefixtures("clock", "_anchored")
def test_the_anchored_clock_asks_the_database_once(django_assert_num_queries):
    with django_assert_num_queries(1):
        first = clock_module.now()
        assert clock_module.now() >= first


@pytest.mark.rule("C7")
@pytest.mark.usefixtures("_anchored")
def test_a_process_that_drifted_says_so_and_follows_the_database(clock, caplog):
    clock_module.synchronise()
    clock_module.advance_sim_clock(timedelta(milliseconds=800))
    assert clock_module.synchronise() < clock_module.DRIFT_MAX
    assert "ClockSkew" not in caplog.text
    clock_module.advance_sim_clock(timedelta(hours=1))
    drift = clock_module.synchronise()
    assert abs(drift - timedelta(hours=1)) < timedelta(seconds=1)
    assert "ClockSkew" in caplog.text
    assert abs(clock_module.now() - clock_module._ask_database()) < timedelta(seconds=1)


@pytest.mark.rule("C7")
@pytest.mark.usefixtures("clock")
def test_a_wrong_wall_clock_changes_nothing(monkeypatch):
    before = clock_module.now()
    monkeypatch.setattr(clock_module.time, "time", lambda: 0.0)
    assert clock_module.now() == before


@pytest.mark.parametrize("milliseconds", [0, 1, 999, 1_772_442_000_123, 253_402_300_799_999])
def test_milliseconds_come_back_exactly(milliseconds):
    assert clock_module.to_ms(clock_module.from_ms(milliseconds)) == milliseconds
