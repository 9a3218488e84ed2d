"""What a lost client of ours can hold is bounded by its role, and nothing rests on its session.

C24: through a transaction pooler, a session's settings, prepared statements and open cursors belong
to whoever is served next.
"""

from io import StringIO

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.db.models.signals import pre_migrate

from bettercompute.coordination import leases, timeouts
from bettercompute.coordination.models import Lease
from tests.support import clusters

pytestmark = pytest.mark.rule("C24")


@pytest.fixture
def _restored(transactional_db):
    yield
    with connection.cursor() as cursor:
        name = connection.ops.quote_name(connection.settings_dict["NAME"])
        cursor.execute(f"ALTER ROLE CURRENT_USER IN DATABASE {name} RESET ALL")


def new_session() -> dict[str, str]:
    """The timeouts that a session gets which begins now."""
    with psycopg.connect(clusters.this_one()) as session:
        return {
            name: session.execute("SELECT current_setting(%s)", [name]).fetchone()[0]
            for name in timeouts.WANTED
        }


@pytest.mark.usefixtures("_restored")
def test_the_role_gets_its_timeouts_once_and_keeps_an_operators_own(capsys):
    assert set(new_session().values()) == {"0"}
    assert timeouts.unset() == sorted(timeouts.WANTED)
    call_command("set_timeouts")
    assert "statement_timeout = 60s" in capsys.readouterr().out
    wanted = {**timeouts.WANTED, "statement_timeout": "1min"}
    assert new_session() == wanted

    with connection.cursor() as cursor:
        name = connection.ops.quote_name(connection.settings_dict["NAME"])
        cursor.execute(f"ALTER ROLE CURRENT_USER IN DATABASE {name} SET lock_timeout = '3s'")
    connection.close()  # what a session began with is known to new ones only
    assert timeouts.unset() == []
    call_command("set_timeouts")
    assert "nothing to do" in capsys.readouterr().out
    assert new_session() == {**wanted, "lock_timeout": "3s"}


@pytest.mark.usefixtures("_restored")
def test_make_up_sets_them_by_itself():
    call_command("prepare", stderr=StringIO())
    assert "0" not in new_session().values()


@pytest.mark.usefixtures("_restored")
def test_an_ordinary_role_may_set_them_for_itself(request):
    with psycopg.connect(clusters.this_one(), autocommit=True) as owner:
        owner.execute("DROP ROLE IF EXISTS plain")
        owner.execute("CREATE ROLE plain LOGIN PASSWORD 'plain'")

    def drop() -> None:
        with psycopg.connect(clusters.this_one(), autocommit=True) as owner:
            owner.execute("DROP ROLE plain")

    request.addfinalizer(drop)
    with clusters.connected_to(clusters.as_role(clusters.this_one(), "plain", "plain")):
        assert timeouts.apply() == sorted(timeouts.WANTED)
        connection.close()
        assert timeouts.unset() == []


@pytest.mark.usefixtures("_restored")
def test_a_session_left_in_a_transaction_is_ended_and_readers_go_on():
    timeouts.apply()
    name = connection.ops.quote_name(connection.settings_dict["NAME"])
    with connection.cursor() as cursor:
        cursor.execute(
            f"ALTER ROLE CURRENT_USER IN DATABASE {name}"
            " SET idle_in_transaction_session_timeout = '50ms'"
        )
    with psycopg.connect(clusters.this_one()) as lost:
        lost.execute("SELECT pg_current_xact_id()")
        (pid,) = lost.execute("SELECT pg_backend_pid()").fetchone()
        watch = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s"
        with psycopg.connect(clusters.this_one(), autocommit=True) as other:
            clusters.wait_until(lambda: other.execute(watch, [pid]).fetchone() == (0,))
        with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout):
            lost.execute("SELECT 1")


@pytest.mark.django_db
@pytest.mark.any_session_state  # of the migration, and ends with it
def test_a_migration_takes_as_long_as_it_takes():
    def current() -> str:
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_setting('statement_timeout')")
            return cursor.fetchone()[0]

    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = '60s'")
    try:
        assert current() == "1min"
        call_command("migrate", "coordination", verbosity=0)
        assert current() == "0"
        assert any(timeouts.lift is receiver() for _, receiver, *_ in pre_migrate.receivers)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("RESET ALL")


@pytest.mark.case(32)
@pytest.mark.django_db(transaction=True)
def test_nothing_is_prepared_in_a_session_and_no_cursor_stays_open():
    """psycopg prepares what it has run five times, and Django fetches rows through a named cursor,
    unless both are told not to."""
    leases.take_many(["a", "b", "c"])
    with transaction.atomic(), connection.cursor() as other:
        # As Django would with server-side parameters, and as code that uses psycopg itself.
        plain = psycopg.Cursor(connection.connection)
        for _ in range(10):
            plain.execute("SELECT name FROM leases WHERE name = %s", ["a"])
        rows = Lease.objects.order_by("name").iterator(chunk_size=1)
        assert next(rows).name == "a"
        other.execute("SELECT name FROM pg_prepared_statements")
        assert other.fetchall() == []
        other.execute("SELECT name FROM pg_cursors WHERE name <> ''")
        assert other.fetchall() == []
