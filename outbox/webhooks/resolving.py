"""The addresses of a name, asked for in threads that a dead name server cannot use up.

The system's resolver blocks, often for tens of seconds where a zone is dead. So each name is asked
for once at a time, whoever waits; and a name that answered quickly last time has threads of its
own, so that a thousand dead zones delay no receiver that works. Answers are kept for seconds, which
saves the question for each of a burst: whoever connects judges them every time.
"""

import asyncio
import contextlib
import ipaddress
import socket
import threading
import time
from collections.abc import Callable
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor

from outbox.webhooks import addresses
from outbox.webhooks.addresses import Address, Rules, Target

QUICK_SECONDS = 1.0
KEPT_SECONDS = 5.0
KEPT_MAX = 10_000
QUICK_THREADS = 8
OTHER_THREADS = 32

Answer = tuple[Address, ...]
Lookup = Callable[[str], Answer]


class Unresolved(Exception):
    """This name has no address."""


def system(name: str) -> Answer:
    """What this machine's resolver answers, in the order in which to try them."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Unresolved(str(error)) from None
    return tuple(dict.fromkeys(ipaddress.ip_address(sockaddr[0]) for *_, sockaddr in found))


class Resolver:
    """Asks ``lookup``, with few threads and a short memory; may be shared by threads."""

    def __init__(self, lookup: Lookup = system) -> None:
        self._lookup = lookup
        self._quick = ThreadPoolExecutor(QUICK_THREADS, "webhook-names")
        self._other = ThreadPoolExecutor(OTHER_THREADS, "webhook-names-slow")
        self._lock = threading.RLock()  # a finished future calls back within submit's thread
        self._asked: dict[str, Future[Answer]] = {}
        self._kept: dict[str, tuple[float, Future[Answer]]] = {}
        self._quick_names: set[str] = set()

    def answer(self, name: str, *, seconds: float) -> Answer:
        """The addresses of a name; the calling thread waits.

        Raises:
            Unresolved: there are none.
            TimeoutError: no answer in time; the question goes on, for whoever asks next.
        """
        return _found(self._ask(name), seconds)

    async def addresses(self, name: str, *, seconds: float) -> Answer:
        """The same, waiting in an event loop."""
        asked = self._ask(name)
        loop, answered = asyncio.get_running_loop(), asyncio.Event()

        def tell(_: object) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(answered.set)

        asked.add_done_callback(tell)
        async with asyncio.timeout(seconds):
            await answered.wait()
        return _found(asked, 0)

    def forget_answers(self) -> None:
        """Ask anew for each name, as after a while."""
        with self._lock:
            self._kept.clear()

    def close(self) -> None:
        """Ask no more."""
        for threads in (self._quick, self._other):
            threads.shutdown(wait=False, cancel_futures=True)

    def _ask(self, name: str) -> Future[Answer]:
        with self._lock:
            until, known = self._kept.get(name, (0.0, None))
            if known is not None and time.monotonic() < until:
                return known
            if name in self._asked:
                return self._asked[name]
            threads = self._quick if name in self._quick_names else self._other
            asked = threads.submit(self._look_up, name)
            self._asked[name] = asked
            asked.add_done_callback(lambda done: self._keep(name, done))
            return asked

    def _look_up(self, name: str) -> Answer:
        began = time.monotonic()
        try:
            return self._lookup(name)
        except Unresolved:
            return ()
        finally:
            quick = time.monotonic() - began < QUICK_SECONDS
            with self._lock:
                (self._quick_names.add if quick else self._quick_names.discard)(name)

    def _keep(self, name: str, done: Future[Answer]) -> None:
        with self._lock:
            del self._asked[name]
            if len(self._kept) >= KEPT_MAX:
                self._kept.clear()
                self._quick_names.clear()
            if not done.cancelled():
                self._kept[name] = (time.monotonic() + KEPT_SECONDS, done)


def _found(asked: Future[Answer], seconds: float) -> Answer:
    try:
        found = asked.result(seconds)
    except futures.CancelledError:  # whoever looked it up was closed
        found = ()
    if not found:
        raise Unresolved
    return found


def absolute(target: Target, *, rules: Rules) -> str:
    """The name to ask for: not completed by this machine's search list, unless that is wanted."""
    return target.host if rules.networks else f"{target.host}."


def refuse_inner(target: Target, *, rules: Rules, resolver: Resolver, seconds: float) -> None:
    """Refuse a name whose addresses may not be called, before it is saved.

    Who saves is told at once, that is all: a name that answers later, or otherwise the next time,
    is judged whenever it is connected to.

    Raises:
        addresses.Refused: it has such an address now.
    """
    if target.address is not None:
        return  # parse judged it
    try:
        found = resolver.answer(absolute(target, rules=rules), seconds=seconds)
    except (Unresolved, TimeoutError):
        return
    if not addresses.all_allowed(found, rules=rules):
        raise addresses.Refused(f"{target.host} has an address that is not public")
