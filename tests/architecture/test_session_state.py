"""Nothing outlives its transaction on a session: tests/support/session_state.py watches."""

import pytest
from django.db import connection

from bettercompute.coordination import leases
from bettercompute.sql import Statements
from tests.support import session_state

pytestmark = [pytest.mark.case(32), pytest.mark.rule("C24")]


@pytest.mark.parametrize(
    "statement",
    [
        "SET statement_timeout = 5000",
        "set session characteristics as transaction isolation level serializable",
        "SELECT 1; SET search_path TO x",
        "-- why\nSET TIME ZONE 'UTC'",
        "RESET ALL",
        "DISCARD ALL",
        "PREPARE plan AS SELECT 1",
        "DECLARE rows CURSOR WITH HOLD FOR SELECT 1",
        "LISTEN wake",
        "CREATE TEMPORARY TABLE t (n int)",
        "SELECT pg_advisory_lock(1)",
        "SELECT pg_try_advisory_lock(%s, %s)",
        "SELECT pg_advisory_unlock_all()",
        "SELECT set_config('lock_timeout', %s, false)",
        "SELECT currval('s')",
    ],
)
def test_what_stays_on_a_session_is_seen(statement: str) -> None:
    assert session_state.of(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "SET LOCAL lock_timeout = '1s'",
        "SET TRANSACTION READ ONLY",
        "SET CONSTRAINTS ALL IMMEDIATE",
        "UPDATE leases SET epoch = epoch + 1",
        "INSERT INTO t (a) VALUES ('SET x') ON CONFLICT (a) DO UPDATE SET a = excluded.a",
        "PREPARE TRANSACTION 'x'",
        "CREATE TEMPORARY TABLE t ON COMMIT DROP AS SELECT 1",
        "SELECT pg_advisory_xact_lock(1)",
        "SELECT set_config('lock_timeout', %s, true)",
        "SELECT 1 -- SET x",
        "SAVEPOINT a",
    ],
)
def test_what_ends_with_its_transaction_is_fine(statement: str) -> None:
    assert session_state.of(statement) is None


@pytest.mark.django_db
def test_what_a_test_does_itself_is_its_own_business() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET application_name = 'a test'")


@pytest.mark.django_db
@pytest.mark.any_session_state
def test_the_product_is_caught_in_the_act(monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control: a statement of ours that sets something for good."""
    lease = leases.take("singleton:x")
    worse = dict.fromkeys(leases.LEASES.texts, "SET work_mem = '8MB'")
    monkeypatch.setattr(leases, "LEASES", Statements("leases", worse))
    with session_state.watching() as left:
        leases.give_up(lease)

    (found,) = left
    assert found.startswith("set work_mem, at bettercompute/coordination/leases.py:")
