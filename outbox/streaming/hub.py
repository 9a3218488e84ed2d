"""One reader of events a process, for all of its streams (A7).

A task reads what is new once, and hands each event to the subscribers that asked for it; with no
subscriber it does not run. It looks when a hint says that something was written, and every second
without one. Before it reads, at a bounded interval, it asks of all subscribers at once whether they
still may: nobody is sent an event later than that after losing the right to it.

A subscriber joins when it has read up to where the reader is. Both happen in the event loop with
nothing awaited between, so no event falls between its own reading and what it is handed.

Where the reader's own place is gone (a failover that lost commits, a restore), every subscriber is
told, as one would be that comes back with such an id.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

import structlog

from bettercompute import errors
from bettercompute.web import lifetime
from outbox import positions, reader
from outbox.reader import EventRow
from outbox.streaming import wakeups
from outbox.streaming.permits import Permits
from outbox.streaming.subscribers import Arrival, Subscriber

log = structlog.get_logger(__name__)

Found = TypeVar("Found")

STREAMS_MAX = 2_000  # of one process
STREAMS_PER_ACCOUNT_MAX = 50  # of one account, in one process
LOOK_SECONDS = 1.0
#: After a hint: what was just committed is readable once every older transaction has ended.
AGAIN_SECONDS = (0.05, 0.15, 0.3)
PAUSE_SECONDS = 0.05  # between two looks at least, however many hints come
STOP_SECONDS = 0.25  # how soon a process that must stop lets go of its streams
CHECK_SECONDS = 5.0
BATCH = 500


class InThread(Protocol):
    """Runs what asks the database in a thread, away from the event loop."""

    def __call__(self, question: Callable[[], Found], /) -> Awaitable[Found]: ...


class Hub:
    """The reader, and who is subscribed."""

    def __init__(self, in_thread: InThread) -> None:
        self._in_thread = in_thread
        self._by_tenant: dict[str | None, set[Subscriber]] = {}
        self._of_account: Counter[str] = Counter()
        self._permits = Permits()
        self._tasks: tuple[asyncio.Task[None], ...] = ()
        self._hint = asyncio.Event()
        self._looks_again = len(AGAIN_SECONDS)
        self._doubtful = False  # something failed: whether our place is still there is not known
        self._checked_at = float("-inf")
        self.placed = False
        self.position = positions.START

    @property
    def count(self) -> int:
        """How many streams there are."""
        return self._of_account.total()

    def subscribe(self, subscriber: Subscriber) -> None:
        """Take a stream in, and begin to read where it is the first.

        Raises:
            RateLimited: the account has too many streams already.
            Unavailable: this process has.
        """
        account = subscriber.credential.account_id
        self._require_room(account)
        self._of_account[account] += 1
        self._by_tenant.setdefault(subscriber.filters.tenant_id, set()).add(subscriber)
        if not self._tasks:
            running = (self._run(), wakeups.listen(self.hint))
            self._tasks = tuple(asyncio.create_task(each) for each in running)

    def leave(self, subscriber: Subscriber) -> None:
        """A stream has ended."""
        account, tenant_id = subscriber.credential.account_id, subscriber.filters.tenant_id
        self._by_tenant[tenant_id].discard(subscriber)
        if not self._by_tenant[tenant_id]:
            del self._by_tenant[tenant_id]
        self._of_account[account] -= 1
        if not self._of_account[account]:
            del self._of_account[account]
        if not self._by_tenant:
            for task in self._tasks:
                task.cancel()
            self._tasks, self.placed = (), False

    def hint(self) -> None:
        """Something was written: look soon."""
        self._hint.set()

    async def page(self, subscriber: Subscriber) -> list[EventRow] | None:
        """What a subscriber has missed, up to where the reader is; None where its place is gone."""
        after, until, asked = subscriber.position, self.position, subscriber.filters

        def read() -> list[EventRow] | None:
            if reader.resume(str(after)).reset:
                return None
            return reader.EVENTS.read(
                after,
                until=until,
                limit=BATCH,
                types=asked.types,
                tenant_id=asked.tenant_id,
                subject=asked.subject,
            )

        return await self._in_thread(read)

    def _require_room(self, account: str) -> None:
        if self._of_account[account] >= STREAMS_PER_ACCOUNT_MAX:
            raise errors.RateLimited(
                f"You have {STREAMS_PER_ACCOUNT_MAX} event streams open; close one first.",
                retryAfterSeconds=30,
            )
        if self.count >= STREAMS_MAX:
            raise errors.Unavailable(
                "This server has as many event streams as it takes; try again, or list events.",
                retryAfterSeconds=random.randint(5, 15),  # noqa: S311  # so that not all come at once
            )

    async def _run(self) -> None:
        """Look, hand out, and wait, for as long as there is a subscriber."""
        while not lifetime.is_stopping():
            try:
                await self._look()
            except Exception as error:  # noqa: BLE001  # whatever it is, streams are kept open
                if not self._doubtful:
                    log.warning("event streams stand still", reason=type(error).__name__)
                self._doubtful = True
            await self._pause()
        for subscriber in self._everyone():
            subscriber.end("the server stops")

    async def _look(self) -> None:
        """Hand out what is new."""
        if not self.placed:
            await self._take_place()
        elif self._doubtful:
            await self._find_place()
        while True:
            await self._check_permits()
            page = await self._in_thread(lambda: reader.follow(self.position, limit=BATCH))
            self._hand_out(page.rows)
            self.position = page.position
            if page.rows:
                self._looks_again = len(AGAIN_SECONDS)
            if len(page.rows) < BATCH:
                self._doubtful = False
                return

    def _hand_out(self, rows: list[EventRow]) -> None:
        for row in rows:
            arrival = Arrival(row)
            for group in (row.tenant_id, None):
                for subscriber in self._by_tenant.get(group, ()):
                    subscriber.offer(arrival)

    async def _take_place(self) -> None:
        self.position = await self._in_thread(reader.end)
        self.placed = True
        for subscriber in self._everyone():
            subscriber.wake.set()

    async def _find_place(self) -> None:
        """After a failure: go on from where we were, or tell everybody that it is gone."""
        resumed = await self._in_thread(lambda: reader.resume(str(self.position)))
        if resumed.reset:
            self.position = resumed.position
            for subscriber in self._everyone():
                subscriber.lose(resumed.position)

    async def _check_permits(self) -> None:
        """End the streams of those who may not read these events any more."""
        now = asyncio.get_running_loop().time()
        if now - self._checked_at < CHECK_SECONDS:
            return
        everyone = self._everyone()
        asked = {subscriber.permit for subscriber in everyone}
        left = await self._in_thread(lambda: self._permits.renew(asked))
        for subscriber in everyone:
            if subscriber.permit not in left:
                subscriber.end("it may not read these events any more")
                continue
            expires_in = left[subscriber.permit]
            if expires_in is not None:
                subscriber.expire_at(now + expires_in.total_seconds())
        self._checked_at = now

    async def _pause(self) -> None:
        """Until the next look: a second, or a moment after a hint."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(PAUSE_SECONDS)
        patience = LOOK_SECONDS
        if self._looks_again < len(AGAIN_SECONDS):
            patience = AGAIN_SECONDS[self._looks_again]
            self._looks_again += 1
        until = loop.time() + patience
        while (left := until - loop.time()) > 0 and not lifetime.is_stopping():
            try:
                async with asyncio.timeout(min(left, STOP_SECONDS)):
                    await self._hint.wait()
            except TimeoutError:
                continue
            self._hint.clear()
            self._looks_again = 0
            return

    def _everyone(self) -> list[Subscriber]:
        return [each for group in self._by_tenant.values() for each in group]
