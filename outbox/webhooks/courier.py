"""The courier: sends what is due, in every worker at once, each delivery by whoever claims it (A6).

Two threads. This one speaks with the database: it claims, and writes down what came back, many at
a time. The other is an event loop in which hundreds of attempts wait for their receivers. A
receiver costs what its slot costs, and slots are shared out by how quickly an endpoint answers:

- *quick*: what answered well the last time. Not held up by anything below;
- *new*: what was not called yet, each one call;
- *slow*: what takes what it is sent, and keeps us waiting, each one call;
- *failing*: what took nothing the last time, each one call.

An attempt that has not come back after three seconds gives its slot to the next of its lane, so
that even a thousand quick endpoints that all die at once hold up the others for no longer.
"""

import asyncio
import concurrent.futures
import logging
import queue
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

from django.db import Error, InterfaceError, OperationalError, connections, transaction

from bettercompute import clock, failpoints
from bettercompute.coordination import reconnecting
from bettercompute.failpoints import Failpoint
from outbox.models import Lane
from outbox.webhooks import deliveries, rules, vault, watching
from outbox.webhooks.deliveries import Claim, Result
from outbox.webhooks.sending import Attempt, Failure, Request, Sender

log = logging.getLogger(__name__)

T = TypeVar("T")

POLL_SECONDS = 0.5
OVERTIME_SECONDS = 3.0
GRACE_SECONDS = 3.0  # for what is under way when the process stops
STOP_SECONDS_MAX = GRACE_SECONDS + 2
#: At most (96 + 32) × 5 + 64 + 64 attempts are out at once, as long as one may take 15 seconds.
SLOTS = {Lane.QUICK: 96, Lane.NEW: 32, Lane.SLOW: 64, Lane.FAILING: 64}
#: Where an attempt has its slot for as long as it takes.
PATIENT = {Lane.SLOW, Lane.FAILING}


@dataclass(eq=False, slots=True)
class Flight:
    """An attempt that is under way."""

    claim: Claim
    sent: "concurrent.futures.Future[Attempt]"
    since: float = field(default_factory=time.monotonic)

    def holds_a_slot(self, lane: Lane) -> bool:
        """Whether the next of this lane has to wait for it."""
        if self.claim.lane is not lane:
            return False
        return lane in PATIENT or time.monotonic() - self.since < OVERTIME_SECONDS


class Outgoing:
    """The event loop in its thread, and the sender in it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="webhooks-out")
        self._thread.daemon = True
        self._thread.start()
        self._sender = Sender(rules=rules.current())
        self._run(self._sender.__aenter__()).result()

    def send(self, request: Request, *, origin: str | None) -> "concurrent.futures.Future[Attempt]":
        """Send it; the answer comes by the future."""
        return self._run(watching.send(request, origin, by=self._sender.send))

    def close(self) -> None:
        """End what is still under way."""
        self._run(self._finish()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _finish(self) -> None:
        mine = asyncio.current_task()
        others = [task for task in asyncio.all_tasks() if task is not mine]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._sender.__aexit__(None, None, None)

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)


class Courier:
    """One a process."""

    def __init__(self) -> None:
        self._arrived: queue.SimpleQueue[Flight | None] = queue.SimpleQueue()
        self._flights: set[Flight] = set()
        self._unwritten: list[Result] = []
        self._outgoing: Outgoing | None = None
        self._looked_at = 0.0
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._stopping.clear()
        self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End: what is under way has some seconds; what has not come back then is broken off."""
        self._stopping.set()
        self.wake()
        if self._thread is not None:
            self._thread.join(timeout=STOP_SECONDS_MAX)
            self._thread = None

    def wake(self) -> None:
        """Something may be due."""
        if self._thread is not None:
            self._arrived.put(None)

    def catch_up(self) -> int:
        """Send what is due now and write down what came of it, without a thread of its own."""
        done = 0
        try:
            while taken := self._take_up(everything=True):
                done += taken
                while self._flights:
                    self._write_down(self._collect(POLL_SECONDS))
        except Error as error:
            log.warning("The database is unreachable (%s); webhooks wait.", error)
            reconnecting.drop_if_broken()
        finally:
            self._close()
        return done

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._survive(self._turn)
            self._survive(self._finish)
        finally:
            self._close()
            connections.close_all()

    def _turn(self) -> None:
        """Write down what came back, and take up what is due."""
        back = self._collect(POLL_SECONDS)
        self._write_down(back)
        # The others than quick endpoints are looked at now and then: they are not in a hurry.
        everything = time.monotonic() - self._looked_at >= POLL_SECONDS or not back
        if everything:
            self._looked_at = time.monotonic()
        self._take_up(everything=everything)

    def _finish(self) -> None:
        until = time.monotonic() + GRACE_SECONDS
        while self._flights and time.monotonic() < until:
            self._write_down(self._collect(until - time.monotonic()))
        self._write_down([])
        now = time.monotonic()
        deliveries.break_off([(flight.claim, now - flight.since) for flight in self._flights])

    def _collect(self, seconds: float) -> list[Flight]:
        """What came back, waiting so long for the first."""
        back: list[Flight] = []
        try:
            arrived = self._arrived.get(timeout=max(0.0, seconds))
            while True:
                if arrived is not None:
                    back.append(arrived)
                arrived = self._arrived.get_nowait()
        except queue.Empty:
            return back

    def _write_down(self, back: Sequence[Flight]) -> None:
        """Kept where the database is away, and written with the next ones."""
        for flight in back:
            self._flights.discard(flight)
            self._unwritten.append(deliveries.result(flight.claim, _outcome(flight)))
        if not self._unwritten:
            return
        failpoints.reach(Failpoint.WEBHOOK_SENT)
        try:
            deliveries.record(self._unwritten)
        except (OperationalError, InterfaceError):
            raise
        except Error:
            _record_one_by_one(self._unwritten)
        self._unwritten = []

    def _take_up(self, *, everything: bool) -> int:
        """Claim what there are slots for, and send it; answers how many."""
        taken = 0
        for lane in Lane if everything else (Lane.QUICK,):
            free = SLOTS[lane] - sum(flight.holds_a_slot(lane) for flight in self._flights)
            if free > 0:
                claims = deliveries.claim(lane, limit=free)
                taken += len(claims)
                now_ms = clock.now_ms() if claims else 0
                for claim in claims:
                    self._send(claim, now_ms=now_ms)
        return taken

    def _send(self, claim: Claim, *, now_ms: int) -> None:
        if self._outgoing is None:
            self._outgoing = Outgoing()
        try:
            sent = self._outgoing.send(claim.request(now_ms=now_ms), origin=claim.origin)
        except vault.Unreadable as error:
            log.error("the secret of webhook %s cannot be read: %s", claim.endpoint_id, error)  # noqa: TRY400
            sent = concurrent.futures.Future()
            sent.set_result(deliveries.unreadable_secret(error))
        flight = Flight(claim, sent)
        self._flights.add(flight)
        sent.add_done_callback(lambda _: self._arrived.put(flight))

    def _survive(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Error as error:
            log.warning("The database is unreachable (%s); webhooks wait.", error)
            reconnecting.drop_if_broken()
            self._stopping.wait(POLL_SECONDS)
        except Exception:
            # The edge of a loop: a mistake in one turn must not end the others.
            log.exception("sending webhooks failed")
            self._stopping.wait(POLL_SECONDS)

    def _close(self) -> None:
        if self._outgoing is not None:
            self._outgoing.close()
            self._outgoing = None
        self._flights.clear()


def _record_one_by_one(results: Sequence[Result]) -> None:
    """One of them cannot be written down: it must not keep the others from being."""
    for each in results:
        try:
            deliveries.record([each])
        except (OperationalError, InterfaceError):
            raise
        except Error:
            # Its claim lapses, and it is sent again.
            log.exception("what came of delivery %s cannot be written down", each.claim.id)


def _outcome(flight: Flight) -> Attempt:
    try:
        return flight.sent.result()
    except (Exception, concurrent.futures.CancelledError):
        # A mistake of ours: it must not keep a delivery from being tried again.
        log.exception("sending delivery %s failed", flight.claim.id)
        return Attempt(Failure.BROKEN, "Sending it failed on our side.", latency_ms=0)


def send_now(request: Request) -> Attempt:
    """Send one message and wait for what comes of it, seconds at most."""

    async def once() -> Attempt:
        async with Sender(rules=rules.current()) as sender:
            return await watching.send(request, None, by=sender.send)

    return asyncio.run(once())


@cache
def current() -> Courier:
    """This process's courier."""
    return Courier()


def wake_on_commit() -> None:
    """Have this process's courier look once this transaction has committed; others poll."""
    transaction.on_commit(current().wake, robust=True)
