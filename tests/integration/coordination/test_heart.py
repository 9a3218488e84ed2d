"""A web process beats in a thread of its own, whatever becomes of the database (C38)."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import OperationalError

from bettercompute import asgi
from bettercompute.coordination import heart as hearts
from bettercompute.coordination import heartbeats
from bettercompute.coordination.heart import Heart
from reservations.models import ApiWatch
from tests.support import agents

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("C38")]

WAIT_SECONDS_MAX = 60.0


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        threading.Event().wait(0.01)


class Beats:
    """Counts beats, after as many failures as told."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.count = 0

    def __call__(self) -> None:
        if self.failures:
            raise self.failures.pop(0)
        heartbeats.beat("web")
        self.count += 1


@pytest.fixture
def started() -> Iterator[Callable[[Callable[[], None]], Heart]]:
    """Starts hearts that beat all the time, and stops them in the end."""
    made: list[Heart] = []

    def start(beat: Callable[[], None]) -> Heart:
        heart = Heart(beat, every_seconds=0.01)
        made.append(heart)
        heart.start()
        return heart

    yield start
    for heart in made:
        heart.stop()


def test_it_beats_until_it_is_stopped_and_says_so(started: Callable[..., Heart]) -> None:
    beats = Beats()
    heart = started(beats)
    until(lambda: beats.count >= 3)
    assert len(heartbeats.alive("web")) == 1
    heart.stop()
    assert heartbeats.alive("web") == []
    count = beats.count
    threading.Event().wait(0.05)
    assert beats.count == count


def test_it_outlasts_an_outage_and_mistakes_of_ours(started: Callable[..., Heart]) -> None:
    beats = Beats(OperationalError("gone"), OperationalError("gone"), ValueError("ours"))
    started(beats)
    until(lambda: beats.count >= 1)


def test_a_database_that_hangs_does_not_hold_up_the_stop(
    started: Callable[..., Heart], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hearts, "STOP_SECONDS_MAX", 0.05)
    let_go, hangs = threading.Event(), threading.Event()

    def hang() -> None:
        hangs.set()
        let_go.wait(WAIT_SECONDS_MAX)

    heart = started(hang)
    assert hangs.wait(WAIT_SECONDS_MAX)
    heart.stop()  # comes back though the beat has not
    let_go.set()
    until(lambda: not any(thread.name == "heart" for thread in threading.enumerate()))


def test_the_server_beats_from_its_start_to_its_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    # It ends its threads when it stops; those of the other tests of this process must go on.
    for pool in ("_looking", "_streaming"):
        monkeypatch.setattr(asgi, pool, ThreadPoolExecutor(1))
    sent: list[str] = []

    async def life() -> None:
        events: asyncio.Queue[dict[str, str]] = asyncio.Queue()

        async def send(message: Any) -> None:
            sent.append(message["type"])

        running = asyncio.create_task(asgi.application({"type": "lifespan"}, events.get, send))
        await events.put({"type": "lifespan.startup"})
        await agents.until(lambda: heartbeats.alive("web"), seconds=WAIT_SECONDS_MAX)
        await events.put({"type": "lifespan.shutdown"})
        await running

    asyncio.run(life())
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert heartbeats.alive("web") == []
    assert ApiWatch.objects.count() == 1, "when it last served stays known"
