"""Who holds every reader back, and who only seems to (C24).

Readers wait for ``pg_snapshot_xmin``: the oldest transaction *id* in progress. PostgreSQL gives a
transaction an id at its first write or row lock, so who only reads has none.
"""

import pytest
from django.db import connection

from outbox import checks, dispatch, events, reader
from tests.support import horizon, sessions

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("C24")]


def publish(name):
    events.publish("pool.created", tenant_id="ten_a", subject=f"pool/{name}", data={"poolId": name})


def readable():
    return [row.data["poolId"] for row in reader.read(reader.START, limit=9)]


def one(query, *parameters):
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        return cursor.fetchone()[0]


def test_the_self_check_names_the_session_its_user_application_and_statement(clock, monkeypatch):
    monkeypatch.setattr(checks, "HORIZON_MAX", checks.HORIZON_MAX * 0)
    with sessions.opened("stuck", "later") as (stuck, later):
        stuck.begin()
        stuck.sql("SET LOCAL application_name = 'nightly report'")
        stuck.run(lambda: publish("stuck"))
        horizon.let_writers_elsewhere_end()
        later.begin()
        later.sql("SELECT pg_current_xact_id()")
        publish("held back")
        assert readable() == []
        stuck.sql("SELECT 42 AS  the_answer")
        stall = dispatch.stall()
        assert stall.who == f"pid {stuck.backend}"
        assert stall.database == connection.settings_dict["NAME"]
        assert (stall.application, stall.state) == ("nightly report", "idle in transaction")
        assert stall.age.total_seconds() > 0
        (finding,) = checks.horizon()
        assert finding.check == "outbox.horizon"
        for said in (f"pid {stuck.backend} ", "nightly report", "SELECT 42 AS the_answer"):
            assert said in finding.message
        stuck.commit()
        assert dispatch.stall().who == f"pid {later.backend}"
        later.rollback()
    assert dispatch.stall() is None
    assert readable() == ["stuck", "held back"]


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_a_transaction_that_only_reads_holds_back_vacuum_but_no_reader_of_events(clock, isolation):
    with sessions.opened("dump") as (dump,):
        dump.begin()
        dump.sql(f"SET TRANSACTION ISOLATION LEVEL {isolation}")
        dump.sql("SELECT count(*) FROM outbox")
        if isolation != "READ COMMITTED":  # it keeps its snapshot: VACUUM's horizon is its
            own = "SELECT backend_xmin IS NOT NULL FROM pg_stat_activity WHERE pid = %s"
            assert one(own, dump.backend)
        publish("a")
        horizon.let_writers_elsewhere_end()
        assert readable() == ["a"]
        assert dispatch.stall() is None


def test_a_transaction_that_only_locked_a_row_holds_readers_back_too(clock):
    publish("a")
    with sessions.opened("locker") as (locker,):
        locker.begin()
        locker.sql("SELECT FROM outbox FOR SHARE")
        publish("b")
        horizon.let_writers_elsewhere_end()
        assert readable() == ["a"]
        assert dispatch.stall().who == f"pid {locker.backend}"


def test_a_transaction_that_failed_holds_nobody_back_however_long_it_stays_open(clock):
    with sessions.opened("failed") as (failed,):
        failed.begin()
        failed.run(lambda: publish("never"))
        with pytest.raises(Exception, match="division by zero"):
            failed.sql("SELECT 1 / 0")
        publish("a")
        horizon.let_writers_elsewhere_end()
        state = one("SELECT state FROM pg_stat_activity WHERE pid = %s", failed.backend)
        assert state == "idle in transaction (aborted)"
        assert dispatch.stall() is None
        assert readable() == ["a"]
        failed.rollback()
