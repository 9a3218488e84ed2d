"""Named SQL statements, kept in ``<app>/sql/<subject>.sql`` and run by one Python function each.

A file is a list of blocks::

    -- name: take
    -- One or two lines that say why.
    UPDATE …;

``LEASES = sql.load(__package__, "leases")`` reads it once; ``LEASES.one("take", owner=…)`` runs it
in the current connection. Parameters are named, ``%(owner)s``, and carry casts where PostgreSQL
could not tell the type (tests/architecture prepares every statement).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from django.db import connection

_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Statements:
    """The statements of one file, by name."""

    source: str
    texts: Mapping[str, str]

    def all(self, name: str, /, **parameters: Any) -> list[Row]:
        """Every row."""
        with connection.cursor() as cursor:
            cursor.execute(self.texts[name], parameters)
            rows: list[Row] = cursor.fetchall()
            return rows

    def one(self, name: str, /, **parameters: Any) -> Row | None:
        """The first row, or None where a guarded statement hit no row."""
        with connection.cursor() as cursor:
            cursor.execute(self.texts[name], parameters)
            row: Row | None = cursor.fetchone()
            return row

    def run(self, name: str, /, **parameters: Any) -> int:
        """How many rows it changed."""
        with connection.cursor() as cursor:
            cursor.execute(self.texts[name], parameters)
            changed: int = cursor.rowcount
            return changed


def load(package: str, subject: str) -> Statements:
    """The statements of ``<package>/sql/<subject>.sql``."""
    path = resources.files(package) / "sql" / f"{subject}.sql"
    return Statements(f"{package}/sql/{subject}.sql", parse(path.read_text(encoding="utf-8")))


def parse(text: str) -> dict[str, str]:
    """Blocks by name; a name used twice is a mistake of ours."""
    parts = _NAME.split(text)
    names, bodies = parts[1::2], parts[2::2]
    assert len(set(names)) == len(names), f"a statement's name is used twice: {names}"
    return {name: body.strip().removesuffix(";") for name, body in zip(names, bodies, strict=True)}
