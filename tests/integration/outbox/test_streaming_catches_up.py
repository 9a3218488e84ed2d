"""A stream that has missed something reads for itself until it is where the one reader is (A7)."""

import asyncio
import threading

import pytest

from outbox import reader
from outbox.models import Event
from outbox.streaming import opening
from outbox.streaming.hub import Hub
from tests.support.streams import apart, bearer, named, opened, publish, published, quick

__all__ = ["quick"]  # a fixture of every test here

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("A7")]


@pytest.mark.case(24)
@pytest.mark.rule("R38")
@pytest.mark.parametrize("first", [100, 1])
def test_what_a_stream_has_missed_is_its_own_tenants(monkeypatch, first):
    """With its opening, or page by page."""
    monkeypatch.setattr(opening, "FIRST_MAX", first)
    mallory = bearer("mallory")
    publish("a", "b")
    publish("m", slug="globex")
    publish("c")

    async def scenario():
        async with opened(mallory, "after=0-0") as stream:
            await stream.count(1)
            await published("n", slug="globex")
            assert named(await stream.count(2)) == ["m", "n"]

    asyncio.run(scenario())


def test_what_happens_while_a_page_is_read_is_on_the_next(monkeypatch):
    """It must not join a reader that has gone on meanwhile."""
    monkeypatch.setattr(opening, "FIRST_MAX", 1)
    headers = bearer("alice")
    publish("a", "b")
    page, reads = Hub.page, []

    async def slow(self, subscriber):
        found, before = await page(self, subscriber), self.position
        reads.append(len(found))
        if len(reads) == 1:
            await published("meanwhile")
            while self.position == before:  # until the reader has it
                await asyncio.to_thread(threading.Event().wait, 0.02)
        return found

    monkeypatch.setattr(Hub, "page", slow)

    async def scenario():
        async with opened(headers, "after=0-0") as stream:
            await stream.count(3)
            await published("d")
            assert named(await stream.count(4)) == ["a", "b", "meanwhile", "d"]

    asyncio.run(scenario())
    assert reads == [1, 1]


@pytest.mark.rule("C21", "C24")
def test_a_place_that_is_gone_before_the_next_page_is_answered_with_a_reset(monkeypatch):
    monkeypatch.setattr(opening, "FIRST_MAX", 1)
    headers = bearer("alice")
    publish("a", "b")
    page, place = Hub.page, str(reader.end())

    async def late(self, subscriber):
        await apart(lambda: Event.objects.filter(subject="reservation/a").delete())
        return await page(self, subscriber)

    monkeypatch.setattr(Hub, "page", late)

    async def scenario():
        async with opened(headers, "after=0-0") as stream:
            _, reset = await stream.count(2)
            assert (reset.event, reset.id, reset.data["position"]) == ("reset", place, place)
            await published("c")
            assert named(await stream.count(3)) == ["a", "c"]

    asyncio.run(scenario())
