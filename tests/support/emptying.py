"""Emptying the database after a test that committed, in milliseconds.

Django's flush truncates every table and makes content types and permissions again: half a second
for forty tables, and some six hundred tests commit. What one test leaves is a few rows; to delete
those takes five milliseconds. A table that has grown is truncated all the same, so that no later
test reads past the dead rows of an earlier one.
"""

from collections.abc import Iterator
from functools import cache

import pytest
from django.db import connection, transaction
from django.test import TransactionTestCase
from psycopg import sql

GROWN_BYTES = 1_000_000

# Made by migrations and signals, and by nothing that a test does.
KEPT = {"django_migrations", "django_content_type", "auth_permission"}

_MAY_SKIP_TRIGGERS = "SELECT has_parameter_privilege('session_replication_role', 'SET')"
_GROWN = """
SELECT relname
FROM pg_class
WHERE relname = ANY (%s) AND relnamespace = 'public'::regnamespace AND pg_relation_size(oid) > %s
"""


@pytest.fixture(autouse=True, scope="session")
def quick_emptying() -> Iterator[None]:
    """Let every test that committed end so."""
    flush = TransactionTestCase._fixture_teardown

    def empty(case: TransactionTestCase) -> None:
        if _may_skip_triggers():
            _empty()
        else:
            flush(case)  # somebody else's server, of which we are no superuser

    TransactionTestCase._fixture_teardown = empty
    yield
    TransactionTestCase._fixture_teardown = flush


def _empty() -> None:
    tables = _tables()
    with transaction.atomic(), connection.cursor() as cursor:
        # No key between tables and no guard of a single row is asked: all of them go.
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(_GROWN, [list(tables), GROWN_BYTES])
        grown = {name for (name,) in cursor.fetchall()}
        if grown:
            names = sql.SQL(", ").join(map(sql.Identifier, sorted(grown)))
            cursor.execute(sql.SQL("TRUNCATE {} CASCADE").format(names))
        deletes = [
            sql.SQL("DELETE FROM {}").format(sql.Identifier(name))
            for name in tables
            if name not in grown
        ]
        cursor.execute(sql.SQL("; ").join(deletes))


@cache
def _may_skip_triggers() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(_MAY_SKIP_TRIGGERS)
        (may,) = cursor.fetchone()
        return bool(may)


@cache
def _tables() -> tuple[str, ...]:
    names = connection.introspection.django_table_names(only_existing=True, include_views=False)
    return tuple(sorted(set(names) - KEPT))
