"""Every statement of every sql/*.sql is understood by the migrated schema."""

import re
from pathlib import Path

import pytest
from django.db import DatabaseError, connection

from bettercompute import sql

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("bettercompute", "outbox", "nodes", "pools", "reservations")
FILES = sorted(
    path
    for package in PACKAGES
    for path in (ROOT / package).rglob("sql/*.sql")
    if "migrations" not in path.parts
)
STATEMENTS = {path: sql.parse(path.read_text(encoding="utf-8")) for path in FILES}
PARAMETER = re.compile(r"%\((\w+)\)s")
# PostgreSQL prepares queries only; these are run as they are.
UNPREPARED = ("LOCK", "SET", "TRUNCATE", "ANALYZE", "VACUUM")


def numbered(text):
    """The statement as PREPARE wants it: ``$1`` for the first name, and so on."""
    names = list(dict.fromkeys(PARAMETER.findall(text)))
    counted = PARAMETER.sub(lambda found: f"${names.index(found.group(1)) + 1}", text)
    return counted.replace("%%", "%")


def is_query(text):
    bare = re.sub(r"--[^\n]*", "", text).strip()
    return not bare.upper().startswith(UNPREPARED)


def prepare(name, text):
    with connection.cursor() as cursor:
        try:
            cursor.execute(f"PREPARE checked AS {numbered(text)}")
        except DatabaseError as error:
            raise AssertionError(f"{name}: {error}") from error
        cursor.execute("DEALLOCATE checked")


@pytest.mark.django_db
@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_statement_prepares(path):
    for name, text in STATEMENTS[path].items():
        if is_query(text):
            prepare(name, text)


@pytest.mark.django_db
def test_a_statement_of_another_schema_is_named():
    with pytest.raises(AssertionError, match=r"take: .*no_such_table"):
        prepare("take", "SELECT 1 FROM no_such_table WHERE id = %(id)s")


# Nothing refers to these rows, or whatever does holds them before it locks anything else: the KEY
# SHARE of a foreign key waits for FOR UPDATE, and at COMMIT, behind every other lock (C19).
LOCKED_FOR_UPDATE = {
    "device_bookings refer to them and hold them first: lock_order.REFERS": (
        "nodes/sql/devices.sql",
        "nodes/sql/inventory.sql",
    ),
    "nothing refers to them": (
        "bettercompute/coordination/sql/leases.sql",
        "bettercompute/coordination/sql/workqueue.sql",
        "reservations/sql/outages.sql",
    ),
}


@pytest.mark.rule("C19")
def test_what_others_refer_to_is_locked_for_no_key_update():
    bare = {path: re.sub(r"--[^\n]*", "", path.read_text(encoding="utf-8")) for path in FILES}
    locking = {
        path.relative_to(ROOT).as_posix()
        for path, text in bare.items()
        if re.search(r"(?<!KEY )\bFOR UPDATE\b", text)
    }
    assert locking == {path for paths in LOCKED_FOR_UPDATE.values() for path in paths}


def test_there_are_statements_to_check():
    assert sum(map(len, STATEMENTS.values())) > 300


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_statement_is_called_somewhere(path):
    """By name, in its app: ``LEASES.one("take", …)``."""
    app = path.parents[1]
    code = "".join(file.read_text(encoding="utf-8") for file in app.rglob("*.py"))
    assert [name for name in STATEMENTS[path] if f'"{name}"' not in code] == []
