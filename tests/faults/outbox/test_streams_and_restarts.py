"""A stream through restarts and crashes of the web server it comes from, as real processes (A7)."""

import threading
import time

import pytest

from bettercompute.client.blocking import Client
from bettercompute.client.failures import ClientError
from outbox import events, reader
from tests.support import cast, web_server

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("A7", "C1")]

EACH = 15
LAST = 1_000
PATIENCE_SECONDS = 90.0


class Follower:
    """A client in a thread of its own, that keeps all it is sent before the event ``LAST``."""

    def __init__(self, url: str, token: str, after: str) -> None:
        self.subjects: list[str] = []
        self.resets = 0
        self.failed: ClientError | None = None
        self._client = Client(url, token)
        self._after = after
        self._wanted = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        try:
            for streamed in self._client.events.stream(after=self._after):
                if streamed.event is None:
                    self.resets += 1
                elif streamed.event.subject == f"reservation/n{LAST}":
                    break
                else:
                    self.subjects.append(streamed.event.subject)
                self._wanted.release()
        except ClientError as error:
            self.failed = error

    def end(self) -> None:
        """Wait until it has come to its last event: a thread that goes on disturbs other tests."""
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()
        assert self.failed is None
        self._client.close()

    def has(self, number: int) -> bool:
        """Wait until it has so many."""
        until = time.monotonic() + PATIENCE_SECONDS
        while len(self.subjects) < number and time.monotonic() < until:
            self._wanted.acquire(timeout=1)
        return len(self.subjects) >= number


def publish(*numbers: int) -> None:
    """An event each, each in its own transaction."""
    for number in numbers:
        events.publish(
            "reservation.pending",
            tenant_id=cast.tenant().pk,
            subject=f"reservation/n{number}",
            data={"state": "pending", "poolId": "pool_a"},
        )


def test_no_id_is_lost_or_comes_twice_though_the_server_restarts_and_is_killed() -> None:
    token = cast.token("alice")[1]
    publish(0)
    with web_server.running() as server:
        followers = [Follower(server.url, token, str(reader.end())) for _ in range(3)]
        sent = iter(range(1, LAST))

        def some() -> None:
            publish(*(next(sent) for _ in range(EACH)))

        some()
        assert followers[0].has(1)
        server.terminate()  # with streams open, and within its own time
        some()
        server.start()
        some()
        assert followers[0].has(2 * EACH)
        server.kill()
        some()
        server.start()
        some()
        publish(LAST)
        expected = [f"reservation/n{number}" for number in range(1, 5 * EACH + 1)]
        for follower in followers:
            follower.end()
            assert follower.subjects == expected
            assert follower.resets == 0
