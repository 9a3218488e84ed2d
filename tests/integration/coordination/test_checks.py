"""The self-check: silent on a healthy system, precise on a sick one (C39)."""

import dataclasses
import json
from datetime import timedelta

import pytest
from django import conf
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection

from bettercompute import errors, findings, selfcheck
from bettercompute.coordination import checks, heartbeats, workqueue
from bettercompute.findings import Finding
from tests.support import damage

pytestmark = [pytest.mark.django_db, pytest.mark.rule("C39")]


def names(findings):
    return [finding.check for finding in findings]


def test_a_queue_that_lags_is_found(clock):
    workqueue.enqueue("node", "node_a")
    assert checks.queue_lag() == []
    clock.advance("2m")
    (finding,) = checks.queue_lag()
    assert finding.check == "queue.lag"
    assert "1 rows" in finding.message


def test_work_that_keeps_failing_is_found_with_its_error(clock):
    workqueue.enqueue("node", "node_a")
    for _ in range(checks.ATTEMPTS_MANY):
        assert checks.queue_failing() == []
        clock.advance("5m")
        (claim,) = workqueue.claim(range(workqueue.SHARDS), limit=1)
        workqueue.fail(claim, "ValueError: no")
    (finding,) = checks.queue_failing()
    assert finding.message == "node node_a failed 5 times in 0:20:00: ValueError: no"


def test_a_worker_that_died_lately_is_no_worker(clock):
    assert names(checks.leases_held()) == []  # workers.alive says that there is none
    heartbeats.beat("worker")
    assert names(checks.workers_alive()) == []
    assert names(checks.leases_held()) == ["leases.stale"]
    clock.advance("16s")
    assert names(checks.workers_alive()) == ["workers.alive"]


def test_a_broker_that_does_not_answer_is_found(settings):
    assert checks.broker_reachable() == []
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert names(checks.broker_reachable()) == ["broker.reachable"]


@pytest.mark.rule("C7")
def test_a_clock_that_is_off_is_found(monkeypatch):
    assert checks.clock_skew() == []
    monkeypatch.setattr(checks.time, "time", lambda real=checks.time.time: real() + 3_600)
    (finding,) = checks.clock_skew()
    assert finding.check == "clock.skew"
    assert "+3600" in finding.message


def broken(name, error):
    @findings.check(name)
    def look():
        """It can be looked at."""
        raise error

    return look


def sleepy(name, seconds):
    @findings.check(name)
    def look():
        """It is looked at in no time."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(%s)", [seconds])
        return []

    return look


@findings.check("a.sick")
def sick():
    """It is well."""
    return [Finding("a.sick", "it is not", "mend it")]


@pytest.mark.parametrize("error", [OperationalError("gone"), ZeroDivisionError("defect")])
def test_a_check_that_breaks_is_its_own_finding_and_others_go_on(error):
    report = selfcheck.run([broken("a.broken", error), sick])
    assert names(report.findings) == ["a.broken", "a.sick"]
    assert str(error) in report.findings[0].message


def test_a_check_that_lacks_a_setting_says_so_rather_than_doubt_the_database(settings):
    @findings.check("a.sealed")
    def look():
        """It can be opened with the key."""
        return [Finding("a.sealed", conf.settings.SECRET_KEY, "")]

    settings.SECRET_KEY = ""
    (finding,) = selfcheck.run([look]).findings
    assert "SECRET_KEY" in finding.message
    assert finding.do == selfcheck.CONFIGURE


def test_a_check_that_fails_in_its_statement_leaves_the_connection_to_the_others():
    @findings.check("a.wrong")
    def wrong():
        """Its statement is right."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 / 0")

    assert names(selfcheck.run([wrong, checks.queue_lag, sick]).findings) == ["a.wrong", "a.sick"]


def test_a_slow_check_is_cut_short(monkeypatch):
    monkeypatch.setattr(selfcheck, "CHECK_SECONDS_MAX", 0.05)
    report = selfcheck.run([sleepy("a.slow", 30), sick])
    assert names(report.findings) == ["a.slow", "a.sick"]
    assert "statement timeout" in report.findings[0].message


def test_all_of_it_is_bounded(monkeypatch):
    report = selfcheck.run([sleepy("a.slow", 0.3), sleepy("a.later", 0)], seconds_max=0.2)
    assert names(report.findings) == ["a.slow", "a.later"]
    assert "no time left" in report.findings[1].message


class TestLatest:
    @pytest.fixture
    def runs(self, monkeypatch):
        """How often everything was looked at."""
        made = []

        def run():
            made.append(selfcheck.Report((), 0, selfcheck.time.monotonic()))
            return made[-1]

        monkeypatch.setattr(selfcheck, "run", run)
        return made

    def test_many_who_ask_cost_one_look(self, runs, monkeypatch):
        latest = selfcheck.Latest()
        assert latest.report() is latest.report()
        assert len(runs) == 1
        real = selfcheck.time.monotonic
        ahead = selfcheck.FRESH_SECONDS + 1
        monkeypatch.setattr(selfcheck.time, "monotonic", lambda: real() + ahead)
        assert latest.report().age_seconds < selfcheck.FRESH_SECONDS
        assert len(runs) == 2

    def test_while_one_looks_others_get_the_one_before_or_are_asked_to_come_again(self, runs):
        latest = selfcheck.Latest()
        latest._running.acquire()
        with pytest.raises(errors.Unavailable) as refused:
            latest.report()
        assert refused.value.details["retryAfterSeconds"] > 0
        latest._running.release()
        before = latest.report()
        latest._report = dataclasses.replace(before, taken_at_monotonic=float("-inf"))
        latest._running.acquire()
        assert latest.report() is latest._report
        assert len(runs) == 1

    def test_a_look_that_breaks_lets_the_next_one_look(self, monkeypatch):
        latest = selfcheck.Latest()
        monkeypatch.setattr(selfcheck, "run", lambda: 1 // 0)
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                latest.report()


class TestCommand:
    def test_it_prints_what_to_do_and_fails_on_findings(self, capsys):
        with pytest.raises(CommandError) as failed:
            call_command("selfcheck")
        assert failed.value.returncode == 1
        printed = capsys.readouterr().out
        assert "workers.alive: No worker" in printed
        assert "do: Start one" in printed

    def test_it_speaks_json(self, capsys):
        with pytest.raises(CommandError):
            call_command("selfcheck", "--json")
        told = json.loads(capsys.readouterr().out)
        assert "workers.alive" in {finding["check"] for finding in told}
        assert all(set(finding) == {"check", "message", "do"} for finding in told)

    def test_all_is_well_is_said_and_is_no_failure(self, capsys, monkeypatch):
        damage.healthy()
        damage.equip(monkeypatch)
        call_command("selfcheck", "--json")
        assert json.loads(capsys.readouterr().out) == []
        call_command("selfcheck", "--all")
        printed = capsys.readouterr().out
        assert "bookings.overlap: ok: No device is booked twice" in printed
        assert "All is well" in printed


def test_the_lag_is_measured_by_the_one_clock(clock):
    workqueue.enqueue("node", "node_a", not_before=clock.now() - timedelta(hours=1))
    assert workqueue.lag()[1] == timedelta(hours=1)


def test_without_a_database_the_command_says_so_once(monkeypatch, capsys):
    def refuse():
        raise OperationalError("connection refused")

    monkeypatch.setattr(connection, "ensure_connection", refuse)
    with pytest.raises(CommandError, match="cannot be reached") as refused:
        call_command("selfcheck")
    assert refused.value.returncode == 1
    assert capsys.readouterr().out == ""
