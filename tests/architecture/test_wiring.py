"""What wiring.py names exists and has the right shape."""

import inspect
from pathlib import Path

import pytest
from django.apps import apps
from django.conf import settings

from bettercompute import locking, wiring
from bettercompute.coordination import worker

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.rule("C27")
@pytest.mark.parametrize(("kind", "path"), wiring.RECONCILERS.items())
def test_a_reconciler_takes_a_key_and_a_fence(kind, path):
    assert len(inspect.signature(wiring.resolve(path)).parameters) == 2


@pytest.mark.rule("C27")
@pytest.mark.parametrize(("kind", "path"), wiring.RESYNCS.items())
def test_a_resync_lists_keys_of_a_kind_that_is_reconciled(kind, path):
    assert kind in wiring.RECONCILERS
    assert not inspect.signature(wiring.resolve(path)).parameters


@pytest.mark.rule("C27")
def test_every_kind_is_woken_again_every_few_minutes():
    assert set(wiring.RESYNCS) == set(wiring.RECONCILERS)
    (resync,) = [tick for tick in wiring.TICKS if tick.function.endswith(":resync")]
    assert resync.every_seconds <= 300


@pytest.mark.parametrize("tick", wiring.TICKS, ids=lambda tick: tick.name)
def test_a_periodic_job_takes_nothing_or_its_fence(tick):
    taken = list(inspect.signature(wiring.resolve(tick.function)).parameters)
    assert taken == (["fence"] if tick.fenced else [])
    assert tick.every_seconds > 0


def test_names_of_periodic_jobs_are_unique():
    assert len({tick.name for tick in wiring.TICKS}) == len(wiring.TICKS)


def test_every_app_with_checks_is_in_the_self_check():
    files = [*ROOT.glob("*/checks.py"), *ROOT.glob("*/*/checks.py")]
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files}
    assert {path.split(":")[0] for path in wiring.CHECKS} == modules
    assert all(callable(check) for check in wiring.checks())


@pytest.mark.django_db
def test_workers_are_wired_as_the_settings_say():
    assert settings.WIRING == "bettercompute.wiring"
    current = worker.current()
    assert set(current.runner.handlers) == set(wiring.RECONCILERS)
    assert set(current.jobs) >= {tick.name for tick in wiring.TICKS}


@pytest.mark.rule("C19")
def test_the_lock_order_names_tables_that_exist_or_are_announced():
    tables = {model._meta.db_table for model in apps.get_models()}
    announced = {"pool_capacity_rollup"}
    assert set(locking.LOCK_ORDER) - tables <= announced
