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


def test_there_are_statements_to_check():
    assert len(STATEMENTS) > 50


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_statement_is_called_somewhere(path):
    """By name, in its app: ``LEASES.one("take", …)``."""
    app = path.parents[1]
    code = "".join(file.read_text(encoding="utf-8") for file in app.rglob("*.py"))
    names = sql.parse(path.read_text(encoding="utf-8"))
    assert [name for name in names if f'"{name}"' not in code] == []
