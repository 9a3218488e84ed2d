"""Every statement of every sql/*.sql is understood by the migrated schema."""

import re
from pathlib import Path

import pytest
from django.db import connection

from bettercompute import sql

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("bettercompute", "outbox", "nodes", "pools", "reservations")
FILES = sorted(
    path
    for package in PACKAGES
    for path in (ROOT / package).rglob("sql/*.sql")
    if "migrations" not in path.parts
)
STATEMENTS = [
    pytest.param(path, name, text, id=f"{path.relative_to(ROOT)}:{name}")
    for path in FILES
    for name, text in sql.parse(path.read_text(encoding="utf-8")).items()
]
PARAMETER = re.compile(r"%\((\w+)\)s")
# PostgreSQL prepares queries only; these are run as they are.
UNPREPARED = ("LOCK", "SET", "TRUNCATE", "ANALYZE", "VACUUM")


def numbered(text):
    """The statement as PREPARE wants it: ``$1`` for the first name, and so on."""
    names = list(dict.fromkeys(PARAMETER.findall(text)))
    counted = PARAMETER.sub(lambda found: f"${names.index(found.group(1)) + 1}", text)
    return counted.replace("%%", "%")


@pytest.mark.django_db
@pytest.mark.parametrize(("path", "name", "text"), STATEMENTS)
def test_a_statement_prepares(path, name, text):
    bare = re.sub(r"--[^\n]*", "", text).strip()
    if bare.upper().startswith(UNPREPARED):
        pytest.skip("not a query")
    with connection.cursor() as cursor:
        cursor.execute(f"PREPARE checked AS {numbered(text)}")
        cursor.execute("DEALLOCATE checked")


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
    assert len(STATEMENTS) > 50


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_statement_is_called_somewhere(path):
    """By name, in its app: ``LEASES.one("take", …)``."""
    app = path.parents[1]
    code = "".join(file.read_text(encoding="utf-8") for file in app.rglob("*.py"))
    names = sql.parse(path.read_text(encoding="utf-8"))
    assert [name for name in names if f'"{name}"' not in code] == []
