"""The one guarded state change (C2, C3).

``move`` is the only code that writes a ``state`` column: one UPDATE guarded by id and version.
Events and wake-ups belong to the caller's transaction; each app has one place that adds them
(``reservations.lifecycle``, ``nodes.eligibility``), because what they say is the app's business.
"""

from collections.abc import Mapping
from typing import Any

from django.db import connection
from psycopg import sql as composing
from psycopg.types.json import Jsonb

from bettercompute import errors
from bettercompute.states import Machine


def move(
    machine: Machine,
    *,
    row_id: str,
    version: int,
    before: str,
    after: str,
    values: Mapping[str, Any] | None = None,
) -> int:
    """Move one row to ``after`` and set ``values`` with it; answers its new version.

    Raises:
        errors.InvalidState: the table does not allow ``after`` behind ``before``.
        errors.Conflict: the row is not at ``version``; ``details.version`` is the current one.
    """
    if not machine.allows(before, after):
        raise errors.InvalidState(
            f"{row_id} is {before} and cannot become {after}", state=before, version=version
        )
    assignments = {name: _as_column(value) for name, value in (values or {}).items()}
    assignments["state"] = after
    statement = composing.SQL(
        "UPDATE {table} SET {assignments}, version = version + 1"
        " WHERE id = {id} AND version = {version} RETURNING version"
    ).format(
        table=composing.Identifier(machine.table),
        assignments=composing.SQL(", ").join(
            composing.SQL("{} = {}").format(composing.Identifier(name), composing.Placeholder(name))
            for name in assignments
        ),
        id=composing.Placeholder("_row_id"),
        version=composing.Placeholder("_version"),
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, {**assignments, "_row_id": row_id, "_version": version})
        row = cursor.fetchone()
    if row is None:
        raise _conflict(machine, row_id)
    return int(row[0])


def _as_column(value: Any) -> Any:
    """Objects and lists are JSON columns; a state change never sets an array."""
    return Jsonb(value) if isinstance(value, dict | list) else value


def _conflict(machine: Machine, row_id: str) -> errors.ApiError:
    statement = composing.SQL("SELECT version FROM {} WHERE id = {}").format(
        composing.Identifier(machine.table), composing.Placeholder("id")
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, {"id": row_id})
        row = cursor.fetchone()
    if row is None:
        return errors.NotFound(f"There is no {row_id}.")
    return errors.Conflict(f"{row_id} changed meanwhile.", id=row_id, version=row[0])
