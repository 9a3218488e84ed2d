"""A strand's connection: real PostgreSQL, with hand-overs between transactions and faults in them.

The faults are as real as can be without killing the server: a cancelled statement fails *in the
server*, so its transaction is aborted there; a lost connection is closed, so that whatever the
client does next meets a closed connection. A transaction under way is rolled back first, since the
server would notice the loss only some time later.
"""

from collections.abc import Callable
from typing import Any

import psycopg
from django.db import Error, OperationalError
from django.db.backends.postgresql.base import DatabaseWrapper
from psycopg.pq import TransactionStatus

from bettercompute.coordination import leases, workqueue
from tests.simulation.baton import Fault, Strand

WORK = workqueue.WORKQUEUE.texts
LOST = "simulated: the connection was lost"
AWAY = "simulated: the database is away"
_CANCEL = (
    "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'query_canceled', MESSAGE = 'simulated'; END $$"
)
_GEN = "SELECT gen, kind FROM work_queue WHERE id = %(id)s"
_IN_FORCE = """
SELECT 1 FROM leases
 WHERE name = %(name)s AND owner = %(owner)s AND epoch = %(epoch)s AND expires_at > compute_now()
"""


class Outage:
    """Whether the database can be reached at all."""

    def __init__(self) -> None:
        self.away = False


class Connection(DatabaseWrapper):
    """Django's connection of one strand."""

    def __init__(self, settings: dict[str, Any], strand: Strand, outage: Outage) -> None:
        super().__init__({**settings, "CONN_MAX_AGE": None}, "default")
        self.strand = strand
        self.accused: list[str] = []
        self._outage = outage
        self._fenced_by: dict[str, Any] | None = None
        self.execute_wrappers.append(self._statement)

    def sever(self) -> None:
        """The connection is lost; the server has ended its transaction."""
        raw = self.connection
        if raw is None or raw.closed:
            return
        try:
            if raw.info.transaction_status != TransactionStatus.IDLE:
                raw.rollback()
        finally:
            raw.close()
        self.errors_occurred = True

    def get_new_connection(self, conn_params: Any) -> Any:
        """Connect, if the database is there."""
        if self.strand.doomed:
            self.strand.die()
        if self._outage.away:
            raise psycopg.OperationalError(AWAY)
        return super().get_new_connection(conn_params)

    def set_autocommit(self, autocommit: bool, *args: Any, **kwargs: Any) -> None:
        """A transaction begins here, or has ended."""
        if not autocommit and not self.in_atomic_block:
            self.strand.point()
            self._fenced_by = None
        super().set_autocommit(autocommit, *args, **kwargs)

    def _commit(self) -> Any:
        self._refuse_if_away()
        match self.strand.fault():
            case Fault.DIE_BEFORE:
                self.strand.die()
            case Fault.CANCELLED | Fault.LOST_BEFORE:
                self.sever()
                raise OperationalError(LOST)
            case Fault.LOST_AFTER:
                self._really_commit()
                self.sever()
                raise OperationalError(LOST)
            case Fault.DIE_AFTER:
                self._really_commit()
                self.strand.die()
        return self._really_commit()

    def _really_commit(self) -> Any:
        self._accuse_zombie()
        return super()._commit()

    def _accuse_zombie(self) -> None:
        """A transaction that acts under a lease must not commit after the lease's term."""
        raw = self.connection
        if self._fenced_by is None or raw is None or raw.closed:
            return
        if raw.info.transaction_status != TransactionStatus.INTRANS:
            return
        if raw.execute(_IN_FORCE, self._fenced_by).fetchone() is None:
            name = self._fenced_by["name"]
            self.accused.append(f"zombie: {self.strand.name} committed under {name} after its term")

    def _statement(
        self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any
    ) -> Any:
        """Django's execute_wrapper: what happens around each statement."""
        if not self.in_atomic_block:
            self.strand.point()
        self._refuse_if_away()
        match self.strand.fault():
            case Fault.DIE_BEFORE:
                self.strand.die()
            case Fault.CANCELLED:
                return execute(_CANCEL, None, False, context)
            case Fault.LOST_BEFORE:
                self.sever()
            case Fault.LOST_AFTER:
                self._execute(execute, sql, params, many, context)
                self.sever()
                raise OperationalError(LOST)
            case Fault.DIE_AFTER:
                self._execute(execute, sql, params, many, context)
                self.strand.die()
        return self._execute(execute, sql, params, many, context)

    def _execute(
        self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any
    ) -> Any:
        if not self.strand.wrote and _writes(sql):
            self.strand.wrote = True
        if sql in (WORK["finish"], WORK["postpone"]):
            return self._finish(execute, sql, params, many, context)
        answer = execute(sql, params, many, context)
        if sql is leases.LEASES.texts["fence"]:
            self._fenced_by = dict(params)
        return answer

    def _finish(
        self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any
    ) -> Any:
        """A run that ends must leave what was woken meanwhile (C26)."""
        found = self.connection.execute(_GEN, params).fetchone()
        answer = execute(sql, params, many, context)
        if found and found[0] != params["gen"] and context["cursor"].rowcount:
            self.accused.append(f"wake-up: {self.strand.name} threw one of {found[1]} away")
        return answer

    def _refuse_if_away(self) -> None:
        if self._outage.away:
            self.sever()
            raise OperationalError(AWAY)


def is_lost_database(error: BaseException) -> bool:
    """Whether this is what a client sees of a database that went away or cancelled a statement."""
    if isinstance(error, psycopg.Error) and not isinstance(
        error, psycopg.OperationalError | psycopg.InterfaceError
    ):
        return False
    return isinstance(error, Error | psycopg.Error) and (
        "simulated" in str(error) or "connection is closed" in str(error)
    )


def _writes(sql: Any) -> bool:
    text = sql if isinstance(sql, str) else str(sql)
    return any(word in text for word in ("INSERT", "UPDATE", "DELETE"))
