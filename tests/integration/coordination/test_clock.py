from datetime import timedelta

import pytest
from django.db import connection

from bettercompute import asgi
from bettercompute import clock as clock_module
from nodes.gateway import flush, live


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
    caplog.clear()  # simulated time is far from this host's
    clock_module.advance_sim_clock(timedelta(milliseconds=800))
    assert clock_module.synchronise() < clock_module.DRIFT_MAX
    assert "ClockSkew" not in caplog.text
    clock_module.advance_sim_clock(timedelta(hours=1))
    drift = clock_module.synchronise()
    assert abs(drift - timedelta(hours=1)) < timedelta(seconds=1)
    assert "ClockSkew" in caplog.text
    assert abs(clock_module.now() - clock_module._ask_database()) < timedelta(seconds=1)


@pytest.fixture
def _real(db, monkeypatch):
    """A process in production, on the real clock; both are the test's alone."""
    clock_module.use_real_clock()
    monkeypatch.setattr(clock_module, "_process", clock_module._Process())


@pytest.mark.rule("C7")
@pytest.mark.usefixtures("_real")
@pytest.mark.parametrize("seconds", [-7, 7], ids=["the host slept", "its counter ran ahead"])
def test_a_monotonic_clock_that_jumps_is_drift_until_the_next_renewal(seconds, monkeypatch, caplog):
    clock_module.synchronise()
    caplog.clear()
    real = clock_module.time.monotonic
    monkeypatch.setattr(clock_module.time, "monotonic", lambda: real() + seconds)
    off = timedelta(seconds=seconds)
    assert abs(clock_module.drift() - off) < timedelta(seconds=1)
    assert caplog.text == ""  # asking how far one is off repairs nothing and logs nothing
    assert abs(clock_module.synchronise() + off) < timedelta(seconds=1)
    assert "ClockSkew: this process drifted" in caplog.text
    assert abs(clock_module.drift()) < timedelta(seconds=1)


@pytest.mark.rule("C7")
@pytest.mark.usefixtures("_real")
def test_a_host_whose_clock_is_off_says_so_at_its_start_and_decides_right(monkeypatch, caplog):
    real = clock_module.time.time
    monkeypatch.setattr(clock_module.time, "time", lambda: real() + 3_600)
    clock_module.synchronise()
    assert "ClockSkew: this host's clock is 3600" in caplog.text
    assert abs(clock_module.drift()) < timedelta(seconds=1)
    caplog.clear()
    clock_module.synchronise()
    assert caplog.text == ""  # once is enough: nothing decides by it


@pytest.mark.rule("C7")
@pytest.mark.usefixtures("_real")
def test_a_clock_first_read_in_an_old_transaction_is_not_behind():
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(1.2)")  # this test is one transaction
        clock_module.synchronise()
        cursor.execute("SELECT clock_timestamp()")
        (instant,) = cursor.fetchone()
    assert instant - clock_module.now() < timedelta(seconds=1)


@pytest.mark.rule("C7")
@pytest.mark.usefixtures("clock")
def test_a_wrong_wall_clock_changes_nothing(monkeypatch):
    before = clock_module.now()
    monkeypatch.setattr(clock_module.time, "time", lambda: 0.0)
    assert clock_module.now() == before


@pytest.mark.rule("C7")
@pytest.mark.django_db
def test_processes_that_hold_no_shard_follow_the_database_too(monkeypatch):
    """A web process with each heartbeat, a gateway with each renewal of its lease."""
    sampled = []
    monkeypatch.setattr(clock_module, "synchronise", lambda: sampled.append("web"))
    asgi._beat()
    assert sampled == ["web"]
    monkeypatch.setattr(clock_module, "synchronise", lambda: sampled.append("gateway"))
    telling = flush.Flush(live.Live(), database=None)
    telling._write([], 0.0, beats=False)
    assert sampled == ["web"]
    telling._write([], 0.0, beats=True)
    assert sampled == ["web", "gateway"]


@pytest.mark.parametrize("milliseconds", [0, 1, 999, 1_772_442_000_123, 253_402_300_799_999])
def test_milliseconds_come_back_exactly(milliseconds):
    assert clock_module.to_ms(clock_module.from_ms(milliseconds)) == milliseconds
