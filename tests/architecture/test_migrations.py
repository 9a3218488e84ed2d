"""Migrations: complete, free of app code, and leading to the schema that docs/ shows."""

import ast
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connection

from bettercompute import clock as clock_module
from bettercompute import reference
from bettercompute.coordination import schema

ROOT = Path(__file__).resolve().parents[2]
MIGRATIONS = sorted(
    path
    for package in ("bettercompute", "outbox", "nodes", "pools", "reservations")
    for path in (ROOT / package).rglob("migrations/[0-9]*.py")
)
# What a field of a migration is made of: the vocabulary of columns, not app code.
ALLOWED = {"bettercompute.columns", "bettercompute.ids", "bettercompute.states"}


@pytest.mark.django_db
def test_the_models_need_no_further_migration(capsys):
    call_command("makemigrations", check=True, dry_run=True, verbosity=1)
    assert "No changes detected" in capsys.readouterr().out


@pytest.mark.parametrize("path", MIGRATIONS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_migration_imports_no_app_code(path):
    imported = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module or "")
    ours = {
        name
        for name in imported
        if name.split(".")[0] in {"bettercompute", "outbox", "nodes", "pools", "reservations"}
    }
    assert ours <= ALLOWED


@pytest.mark.parametrize("path", MIGRATIONS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_migration_is_named_by_its_effect(path):
    assert not path.stem.removeprefix(path.stem[:5]).startswith(("auto", "alter_", "merge"))


@pytest.mark.django_db
@pytest.mark.parametrize("name", reference.DATABASE_PAGES)
def test_what_is_told_of_the_schema_is_up_to_date(name):
    """The page in docs/, and what the self-check expects to be enforced."""
    clock_module.use_real_clock()  # rolled back with the test
    try:
        told = (ROOT / name).read_text(encoding="utf-8")
        assert told == reference.DATABASE_PAGES[name](), "run `make generate`"
    finally:
        clock_module.follow_sim_clock()


@pytest.mark.parametrize("name", reference.PAGES)
def test_a_generated_page_is_up_to_date(name):
    page = (ROOT / name).read_text(encoding="utf-8")
    assert page == reference.PAGES[name](), "run `make generate`"


@pytest.mark.django_db
@pytest.mark.rule("C4")
def test_no_default_trigger_or_constraint_of_the_schema_reads_another_clock():
    from scripts import check_sql_now

    hits = check_sql_now.check_sql(schema.dump(), "schema.sql")
    defining = [hit for hit in hits if "compute_now" in _function_around(hit.line)]
    assert hits == defining


def _function_around(line):
    lines = schema.dump().splitlines()
    return next(text for text in reversed(lines[:line]) if text.startswith("CREATE"))


@pytest.mark.django_db
def test_the_dump_has_every_table_and_the_guards():
    text = schema.dump()
    for table in connection.introspection.table_names():
        assert f"CREATE TABLE {table} (" in text
    assert "booking_no_overlap EXCLUDE" in text
    assert "reservations_state_guard" in text
