"""Timeouts of the database role that this process uses (C24).

They bound what a hung or lost client of ours can hold: row locks, and the horizon behind which
events are read. They belong to the role, in this database: a session's own ``SET`` does not survive
a transaction pooler. A fenced transaction tightens them further for itself (``SET LOCAL``).
"""

from collections.abc import Mapping
from typing import Any

from django.db import connection, connections
from psycopg.sql import SQL, Identifier, Literal

from bettercompute import sql

TIMEOUTS = sql.load(__package__, "timeouts")

# Requests take milliseconds, the largest self-check seconds.
WANTED: Mapping[str, str] = {
    "idle_in_transaction_session_timeout": "30s",
    "lock_timeout": "10s",
    "statement_timeout": "60s",
    "transaction_timeout": "5min",
}

_ALTER = SQL("ALTER ROLE CURRENT_USER IN DATABASE {} SET {} = {}")


def unset() -> list[str]:
    """Those that this session began without."""
    return [row[0] for row in TIMEOUTS.all("unset", names=list(WANTED))]


def apply() -> list[str]:
    """Set what is unset, for new sessions of our role in this database; answers what that was.

    Other values than ours are an operator's choice and stay.
    """
    missing = unset()
    database = Identifier(connection.settings_dict["NAME"])
    with connection.cursor() as cursor:
        for name in missing:
            cursor.execute(_ALTER.format(database, Identifier(name), Literal(WANTED[name])))
    return missing


def lift(using: str = "default", **_: Any) -> None:
    """For this session: a migration takes as long as it takes (a receiver of ``pre_migrate``)."""
    with connections[using].cursor() as cursor:
        for name in WANTED:
            cursor.execute("SELECT set_config(%s, '0', false)", [name])
