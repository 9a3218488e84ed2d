"""The guard of the lock order catches a violation, and only that."""

from contextlib import suppress

import pytest
from django.db import connection, transaction

from tests.support import lock_order, sessions

pytestmark = [pytest.mark.rule("C19"), pytest.mark.django_db, pytest.mark.any_lock_order]

NODES = "SELECT id FROM nodes ORDER BY id FOR SHARE"
QUOTA = "UPDATE quota_usage SET used = used"
RESERVATION = "SELECT id FROM reservations ORDER BY id FOR NO KEY UPDATE"
DEVICES = "SELECT id FROM devices ORDER BY id FOR SHARE"
BOOKING = "INSERT INTO device_bookings (device_id) SELECT id FROM devices WHERE false"
RESOURCES = "UPDATE node_resources SET allocated = allocated"


def execute(*statements):
    for statement in statements:
        with connection.cursor() as cursor:
            cursor.execute(statement)


def violations(*statements):
    with lock_order.watching() as guard, transaction.atomic():
        execute(*statements)
    return guard.violations


def test_the_right_order_passes():
    assert violations(RESERVATION, QUOTA, NODES) == []


def test_the_wrong_order_is_caught_and_names_the_place():
    (violation,) = violations(NODES, QUOTA)
    assert violation.startswith("quota_usage is locked after nodes")
    assert "test_lock_order.py" in violation


def test_a_table_locked_early_may_be_written_again_later():
    assert violations(RESERVATION, NODES, "UPDATE reservations SET version = version") == []


def test_writing_what_was_taken_for_share_is_caught():
    (violation,) = violations(NODES, "UPDATE nodes SET version = version")
    assert violation.startswith("nodes is written after FOR SHARE")


def test_a_key_that_is_checked_at_commit_behind_other_locks_is_caught():
    (violation,) = violations(BOOKING, RESOURCES)
    assert violation.startswith("devices is locked at COMMIT, after node_resources")
    assert violations(DEVICES, BOOKING, RESOURCES) == []


def test_two_transactions_are_judged_apart():
    with lock_order.watching() as guard:
        with transaction.atomic():
            execute(NODES)
        with transaction.atomic():
            execute(QUOTA)
        execute(NODES)
        execute(QUOTA)
    assert guard.violations == []


def test_rolling_back_to_a_savepoint_gives_its_locks_back():
    with lock_order.watching() as guard, transaction.atomic():
        with suppress(sessions.Rollback), transaction.atomic():
            execute(NODES)
            raise sessions.Rollback
        execute(QUOTA)
    assert guard.violations == []


def test_releasing_a_savepoint_keeps_its_locks():
    with lock_order.watching() as guard, transaction.atomic():
        with transaction.atomic():
            execute(NODES)
        execute(QUOTA)
    assert len(guard.violations) == 1


@pytest.mark.django_db(transaction=True)
def test_transactions_of_other_threads_are_watched():
    with lock_order.watching() as guard, sessions.opened("placer") as (placer,):
        placer.begin()
        placer.sql(NODES)
        placer.sql(QUOTA)
        placer.commit()
    assert len(guard.violations) == 1
