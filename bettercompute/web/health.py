"""``/healthz``: the process lives. ``/readyz``: it can take its part (C39).

Ready means: the database answers in time, takes writes and is migrated, and this process was not
asked to stop. The database is asked in a thread of its own, once at a time: one that hangs holds
neither a request nor the probe, which then says so.
"""

import asyncio
import json
import threading
from concurrent.futures import Future
from dataclasses import dataclass

from django.db import DatabaseError, InterfaceError, connection
from django.http import HttpRequest, HttpResponse

from bettercompute.coordination import schema
from bettercompute.web import lifetime, methods

HEALTH_PATH = "/healthz"
READY_PATH = "/readyz"
ALIVE = b'{"status":"ok"}'
READY_SECONDS_MAX = 2.0

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


HANGS = Readiness(ready=False, reason="the database does not answer in time")


class Probe:
    """Asks whether this process is ready, once at a time; who comes meanwhile shares the answer."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._asking: Future[Readiness] | None = None

    def ask(self) -> Future[Readiness]:
        """The answer to be, of a question that may have been asked already."""
        with self._guard:
            if self._asking is None or self._asking.done():
                self._asking = Future()
                answer = self._asking
                # A daemon: a database that hangs does not keep a process from ending.
                threading.Thread(
                    target=_answer, args=[answer], name="readiness", daemon=True
                ).start()
            return self._asking


PROBE = Probe()


@methods.reading
def healthz(request: HttpRequest) -> HttpResponse:
    """The process lives; behind ``asgi.py`` this is answered before Django."""
    return _json(200, ALIVE)


@methods.reading
def readyz(request: HttpRequest) -> HttpResponse:
    """This process can take its part; behind ``asgi.py`` as above."""
    try:
        found = PROBE.ask().result(timeout=READY_SECONDS_MAX)
    except TimeoutError:
        found = HANGS
    return _json(found.status, found.body)


async def ready_soon() -> Readiness:
    """The same for an event loop."""
    asking = asyncio.wrap_future(PROBE.ask())
    try:
        # Shielded: others wait for the same answer.
        return await asyncio.wait_for(asyncio.shield(asking), READY_SECONDS_MAX)
    except TimeoutError:
        return HANGS


def readiness() -> Readiness:
    """Ask the database. That it is migrated is asked until it is, then remembered."""
    if lifetime.is_stopping():
        return Readiness(ready=False, reason="this process is stopping")
    try:
        with connection.cursor() as cursor:
            cursor.execute("SHOW transaction_read_only")
            (read_only,) = cursor.fetchone()
        if read_only == "on":
            return Readiness(ready=False, reason="the database is read-only")
        if not _migrated.is_set():
            if schema.unapplied():
                return Readiness(ready=False, reason="migrations are pending")
            _migrated.set()
    except (DatabaseError, InterfaceError):
        connection.close()
        return Readiness(ready=False, reason="the database cannot be reached")
    return Readiness(ready=True)


def _answer(answer: Future[Readiness]) -> None:
    try:
        answer.set_result(readiness())
    except BaseException as error:  # noqa: BLE001  # whoever asked is told
        answer.set_exception(error)
    finally:
        connection.close()


def _json(status: int, body: bytes) -> HttpResponse:
    answered = HttpResponse(body, status=status, content_type="application/json")
    answered["Cache-Control"] = "no-store"
    return answered
