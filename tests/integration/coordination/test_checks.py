"""The self-check: silent on a healthy system, precise on a sick one (C39)."""

import json
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection

from bettercompute import selfcheck
from bettercompute.coordination import checks, heartbeats, holdings, leases, workqueue
from bettercompute.findings import Finding

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
    assert finding.message == "node node_a failed 5 times: ValueError: no"


def test_missing_workers_and_unheld_shards_are_found(clock):
    assert names(checks.workers_alive()) == ["workers.alive"]
    assert checks.leases_held() == []
    heartbeats.beat("worker")
    assert checks.workers_alive() == []
    assert names(checks.leases_held()) == ["leases.stale"]
    leases.take_many(holdings.shard_name(n) for n in range(workqueue.SHARDS))
    assert checks.leases_held() == []


def test_a_trigger_that_is_off_is_found():
    assert checks.state_guards() == []
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE nodes DISABLE TRIGGER nodes_state_guard")
    (finding,) = checks.state_guards()
    assert "nodes_state_guard" in finding.message


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


def test_a_check_that_breaks_is_a_finding_and_others_go_on():
    def broken():
        raise OperationalError("gone")

    broken.__module__ = "nodes.checks"
    well = Finding("a.b", "x", "y")
    found = selfcheck.run([broken, lambda: [well]])
    assert names(found) == ["nodes.broken", "a.b"]


def test_the_command_prints_what_to_do_and_fails_on_findings(capsys):
    with pytest.raises(CommandError):
        call_command("selfcheck")
    printed = capsys.readouterr().out
    assert "workers.alive: No worker" in printed
    assert "do: Start one" in printed


def test_the_command_speaks_json(capsys):
    with pytest.raises(CommandError):
        call_command("selfcheck", "--json")
    findings = json.loads(capsys.readouterr().out)
    assert "workers.alive" in {finding["check"] for finding in findings}
    assert all(set(finding) == {"check", "message", "do"} for finding in findings)


def test_every_check_of_every_app_runs_on_this_schema():
    assert "the check itself failed" not in " ".join(f.message.lower() for f in selfcheck.run())


def test_the_lag_is_measured_by_the_one_clock(clock):
    workqueue.enqueue("node", "node_a", not_before=clock.now() - timedelta(hours=1))
    assert workqueue.lag()[1] == timedelta(hours=1)
