"""Waiting without a thread: looks, deadline, disconnect, shutdown, in a loop that skips time."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

from bettercompute.web import lifetime, longpoll
from bettercompute.web.bridge import Answer
from bettercompute.web.longpoll import Marker
from tests.support import loops

pytestmark = pytest.mark.rule("R14")

FIRST = Answer(201, [(b"etag", b'"1"'), (b"location", b"/x"), (b"content-length", b"2")], b"{}")


class Found(BaseModel):
    id: str
    version: int


@dataclass
class Looks:
    """A look that finds something after so many times."""

    finds_after: int | None
    fails: bool = False
    count: int = 0
    waited: list[float] = field(default_factory=list)

    async def __call__(self, reservation_id: str) -> BaseModel | None:
        self.count += 1
        self.waited.append(asyncio.get_running_loop().time())
        if self.fails:
            raise ConnectionError("the database is away")
        if self.finds_after is not None and self.count >= self.finds_after:
            return Found(id=reservation_id, version=2)
        return None


async def connected() -> Any:
    await asyncio.Event().wait()


def hold(looks: Looks, timeout_ms: int, receive: Any = connected) -> Answer | None:
    marker = Marker("rsv_1", timeout_ms)
    return loops.run(longpoll.hold(FIRST, marker, look=looks, receive=receive))


@pytest.fixture(autouse=True)
def nobody_stops() -> Iterator[None]:
    yield
    lifetime._watched.clear()


def test_what_is_found_replaces_the_answer_and_its_version() -> None:
    answer = hold(Looks(finds_after=3), 5_000)
    assert answer is not None
    assert answer.status == 201
    assert json.loads(answer.body) == {"id": "rsv_1", "version": 2}
    assert answer.headers == [(b"location", b"/x"), (b"etag", b'"2"')]


def test_time_being_up_is_no_error() -> None:
    looks = Looks(finds_after=None)
    assert hold(looks, 3_000) is FIRST
    assert looks.count >= 2


def test_waiting_for_no_time_looks_not_at_all() -> None:
    looks = Looks(finds_after=1)
    assert hold(looks, 0) is FIRST
    assert looks.count == 0


def test_pauses_grow() -> None:
    looks = Looks(finds_after=5)
    hold(looks, 5_000)
    pauses = [after - before for before, after in zip(looks.waited, looks.waited[1:], strict=False)]
    assert pauses == sorted(pauses)
    assert pauses[-1] > 3 * pauses[0]


def test_a_client_that_leaves_is_not_answered() -> None:
    async def leaves() -> Any:
        return {"type": "http.disconnect"}

    looks = Looks(finds_after=None)
    assert hold(looks, 5_000, leaves) is None
    assert looks.count == 0


def test_a_process_that_stops_answers_at_once() -> None:
    lifetime.watch(SimpleNamespace(alive=False))
    looks = Looks(finds_after=None)
    assert hold(looks, 30_000) is FIRST
    assert looks.count == 0


def test_a_database_that_is_away_does_not_break_the_answer() -> None:
    looks = Looks(finds_after=None, fails=True)
    assert hold(looks, 3_000) is FIRST
    assert looks.count >= 2


def test_more_than_thirty_seconds_are_capped() -> None:
    assert Marker.read(b'{"reservationId": "rsv_1", "timeoutMs": 99999999}').timeout_ms == 30_000
