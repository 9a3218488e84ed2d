"""``/healthz``: the process lives. ``/readyz``: the database answers and is migrated (C39)."""

import json
import threading
from dataclasses import dataclass

from django.db import DatabaseError, InterfaceError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse

HEALTH_PATH = "/healthz"
READY_PATH = "/readyz"
ALIVE = b'{"status":"ok"}'

_migrated = threading.Event()


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether this process can serve, and if not, why."""

    ready: bool
    reason: str = ""

    @property
    def status(self) -> int:
        """The HTTP status of the answer."""
        return 200 if self.ready else 503

    @property
    def body(self) -> bytes:
        document = {"status": "ready" if self.ready else "unavailable"}
        if self.reason:
            document["reason"] = self.reason
        return json.dumps(document, separators=(",", ":")).encode()


def healthz(request: HttpRequest) -> HttpResponse:
    """The process lives; behind ``asgi.py`` this is answered before Django."""
    return _json(200, ALIVE)


def readyz(request: HttpRequest) -> HttpResponse:
    """The database is there and migrated."""
    found = readiness()
    return _json(found.status, found.body)


def readiness() -> Readiness:
    """Ask the database. That it is migrated is asked until it is, then remembered."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        if not _migrated.is_set():
            if _pending_migrations():
                return Readiness(ready=False, reason="migrations are pending")
            _migrated.set()
    except (DatabaseError, InterfaceError):
        connection.close()
        return Readiness(ready=False, reason="the database cannot be reached")
    return Readiness(ready=True)


def _json(status: int, body: bytes) -> HttpResponse:
    answered = HttpResponse(body, status=status, content_type="application/json")
    answered["Cache-Control"] = "no-store"
    return answered


def _pending_migrations() -> bool:
    executor = MigrationExecutor(connection)
    return bool(executor.migration_plan(executor.loader.graph.leaf_nodes()))
