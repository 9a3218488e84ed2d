"""GET /events/stream through the whole server application (A7)."""

import asyncio
import threading
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from django.db import OperationalError, connection

from bettercompute import asgi
from outbox import positions, reader
from outbox.models import Cluster, Event
from outbox.streaming import hub, serving, subscribers
from tests.support import cast, streams
from tests.support.streams import apart, bearer, named, opened, publish, published, quick

__all__ = ["quick"]  # a fixture of every test here

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("A7")]


async def until(true):
    """Wait until something holds of the hub, which says nothing when it does."""
    async with asyncio.timeout(streams.PATIENCE_SECONDS):
        while not true():
            await asyncio.to_thread(threading.Event().wait, 0.02)


def play(scenario):
    """Run a scenario to its end."""
    asyncio.run(scenario)


@pytest.mark.rule("C20", "C23")
def test_an_event_arrives_as_it_is_listed_behind_an_opening_that_says_the_place():
    headers = bearer("alice")

    async def scenario():
        async with opened(headers) as stream:
            assert stream.status == 200
            assert stream.headers["content-type"] == "text/event-stream"
            assert stream.headers["cache-control"] == "no-cache, no-transform"
            assert "content-length" not in stream.headers
            assert "x-bettercompute-stream" not in stream.headers
            await published("a", "b")
            return stream.frames[0], await stream.count(2)

    first, (one, two) = asyncio.run(scenario())
    assert (first.id, first.retry) == (str(positions.START), 2_000)
    rows = reader.read(positions.START, limit=10)
    assert [one.id, two.id] == [str(row.position) for row in rows]
    listed = cast.api("bob").get("/events").json()["items"]
    assert [two.data, one.data] == listed
    assert one.event == "reservation.pending"


def test_who_asks_for_the_head_alone_is_not_told_by_what_the_server_goes_on():
    """That has the key of the session, which no script of a page may read."""
    cookie = cast.session("alice").cookies["sessionid"].value

    async def scenario():
        async with opened({"cookie": f"sessionid={cookie}"}, method="HEAD") as stream:
            await stream.end()
            assert (stream.status, stream.body) == (200, b"")
            assert stream.headers["content-type"] == "text/event-stream"
            assert not [name for name in stream.headers if name.startswith("x-bettercompute")]
            assert cookie not in str(stream.headers)

    play(scenario())


@pytest.mark.parametrize("way", ["header", "query", "both"])
def test_it_goes_on_exactly_behind_the_id_that_it_is_given(way):
    headers = bearer("alice")
    publish("a", "b")
    publish("c")
    first, second, _ = (str(row.position) for row in reader.read(positions.START, limit=10))
    query, last = {
        "header": ("", first),
        "query": (f"after={first}", ""),
        "both": (f"after={second}", first),  # what a browser knows goes before its address
    }[way]

    async def scenario():
        async with opened(headers, query, last=last) as stream:
            assert named(await stream.count(2)) == ["b", "c"]
            await published("d")
            assert named(await stream.count(3)) == ["b", "c", "d"]

    play(scenario())


def test_whoever_comes_back_again_and_again_misses_nothing_and_gets_nothing_twice():
    headers = bearer("alice")
    expected = [f"n{number}" for number in range(40)]

    async def scenario():
        seen, last = [], ""
        async with opened(headers) as stream:
            last = stream.last_id
        writing = asyncio.ensure_future(_write(expected))
        while len(seen) < len(expected):
            async with opened(headers, last=last) as stream:
                await stream.count(1)
                seen += named(stream.events)
                last = stream.last_id
        await writing
        assert seen == expected

    async def _write(names):
        for name in names:
            await published(name)

    play(scenario())


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("types=reservation.active", ["b"]),
        ("types=reservation.*", ["a", "b", "c"]),
        ("types=node.*,reservation.active", ["b"]),
        ("subject=reservation/c", ["c"]),
        ("types=reservation.active&subject=reservation/c", []),
        ("subject=reservation/%E4%B8%AD", []),  # nothing is called so, and it is no mistake
    ],
)
def test_filters_hold_for_what_was_missed_and_for_what_comes(query, found):
    headers = bearer("alice")
    publish("old")
    start = str(reader.end())

    async def scenario():
        await published("a")
        await published("b", verb="active")
        async with opened(headers, f"{query}&after={start}") as stream:
            await stream.count(len(found) - ("c" in found))
            await published("c")
            async with opened(headers) as whole:  # has come when the other has, too
                await published("z", verb="expired")
                await whole.count(1)
            assert named(await stream.count(len(found))) in (found, [*found, "z"])

    play(scenario())


@pytest.mark.case(24)
@pytest.mark.rule("R38")
def test_a_stream_has_only_its_tenants_events_and_another_tenant_is_not_there():
    alice, mallory, olga = bearer("alice"), bearer("mallory"), bearer("olga")
    acme = cast.tenant().pk
    publish("old")

    async def scenario():
        async with (
            opened(alice) as home,
            opened(mallory) as foreign,
            opened(olga, "scope=platform") as all_of_them,
        ):
            await published("a")
            await published("m", slug="globex")
            assert named(await all_of_them.count(2)) == ["a", "m"]
            assert named(await home.count(1)) == ["a"]
            assert named(await foreign.count(1)) == ["m"]
        for query in (f"tenantId={acme}", f"tenantId={acme}&after=0-0"):
            async with opened(mallory, query) as refused:
                assert (refused.status, refused.is_over) == (404, True)
        async with opened(alice, "scope=platform") as refused:
            assert refused.status == 403
        async with opened({}) as refused:
            assert refused.status == 401

    play(scenario())


@pytest.mark.rule("A5")
@pytest.mark.parametrize(
    ("query", "last", "path"),
    [
        ("types=reservation.imagined", "", "types"),
        ("after=yesterday", "", "after"),
        ("", "yesterday", "Last-Event-ID"),
        ("limit=3", "", "limit"),
    ],
)
def test_what_no_stream_has_is_refused_by_name(query, last, path):
    headers = {"Last-Event-ID": last} if last else {}
    answer = cast.api("alice").client.get(f"/api/v1/events/stream?{query}", headers=headers)
    problem = cast.problem(answer, 400, "INVALID_INPUT")
    assert [error["path"] for error in problem["details"]["errors"]] == [path]


@pytest.mark.rule("C21", "C24")
@pytest.mark.parametrize("why", ["removed", "of another cluster"])
def test_an_id_that_is_not_there_any_more_is_answered_with_a_reset_and_the_place_to_go_on(why):
    headers = bearer("alice")
    publish("a")
    gone = str(reader.end()) if why == "removed" else f"{2**60}-7"
    publish("b")
    if why == "removed":
        Event.objects.filter(subject="reservation/a").delete()
    place = str(reader.end())

    async def scenario():
        async with opened(headers, last=gone) as stream:
            (reset,) = await stream.count(1)
            assert (reset.event, reset.id, reset.data["position"]) == ("reset", place, place)
            await published("c")
            assert named(await stream.count(2)) == ["c"]

    play(scenario())


def test_a_client_that_does_not_read_is_dropped_and_costs_the_others_nothing(monkeypatch):
    monkeypatch.setattr(serving, "SEND_SECONDS_MAX", 0.2)
    monkeypatch.setattr(subscribers, "QUEUE_MAX", 3)
    stuck, reading = bearer("alice"), bearer("bob")

    async def scenario():
        async with opened(stuck) as stalled, opened(reading) as stream:
            stalled.reads.clear()
            for number in range(10):
                await published(f"n{number}")
            assert len(await stream.count(10)) == 10
            await stalled.end()
            assert named(stalled.events) == []
        assert asgi._hub().count == 0

    play(scenario())


def test_a_client_that_reads_slowly_gets_everything_though_little_waits_for_it(monkeypatch):
    monkeypatch.setattr(subscribers, "QUEUE_MAX", 3)
    monkeypatch.setattr(hub, "BATCH", 4)
    monkeypatch.setattr(serving, "BATCH", 4)
    slow, quick = bearer("alice"), bearer("bob")
    expected = [f"n{number}" for number in range(25)]
    most = []

    async def scenario():
        async with opened(slow) as stream, opened(quick) as other:
            stream.reads.clear()
            for name in expected:
                await published(name)
            await other.count(25)
            everyone = asgi._hub()._everyone()
            most.append(max(len(each._waiting) for each in everyone))
            stream.reads.set()
            await stream.count(25)
            await published("last")
            assert named(await stream.count(26)) == [*expected, "last"]

    play(scenario())
    assert most[0] <= 3


def test_many_streams_share_one_reader(monkeypatch):
    monkeypatch.setattr(hub, "LOOK_SECONDS", 0.3)
    looks = []
    follow = reader.follow
    monkeypatch.setattr(reader, "follow", lambda *a, **k: looks.append(1) or follow(*a, **k))
    headers = bearer("alice")

    async def scenario():
        async with together([opened(headers) for _ in range(20)]) as several:
            before = len(looks)
            await published("a", "b")
            for stream in several:
                assert named(await stream.count(2)) == ["a", "b"]
            assert len(looks) - before < 10

    play(scenario())


@asynccontextmanager
async def together(managers):
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(each) for each in managers]


def test_a_heartbeat_says_how_far_it_is_though_nothing_was_asked_for(monkeypatch):
    monkeypatch.setattr(serving, "HEARTBEAT_SECONDS", 0.05)
    headers = bearer("alice")
    publish("old")
    start = str(reader.end())

    async def scenario():
        async with opened(headers, "types=node.*") as stream:
            assert stream.last_id == start
            await published("a")
            await stream.until(lambda: stream.last_id != start)
            await stream.until(lambda: stream.frames[-1].comment == "still here")
            assert stream.events == []
            return stream.last_id

    assert asyncio.run(scenario()) == str(reader.end())


@pytest.mark.rule("C1")
def test_a_hint_through_valkey_makes_it_quick(monkeypatch, settings):
    monkeypatch.setattr(hub, "LOOK_SECONDS", 10_000.0)
    settings.HINTS = True
    headers = bearer("alice")

    async def scenario():
        async with opened(headers) as stream:
            assert stream.status == 200
            hears = asyncio.ensure_future(_hear(asgi._hub()))
            async with asyncio.timeout(streams.PATIENCE_SECONDS):
                while not stream.events:
                    await published("a")  # the first may go before the channel is heard
                    await asyncio.wait({hears}, timeout=0.2)
            await stream.count(1)

    async def _hear(of):
        await of._hint.wait()

    play(scenario())


@pytest.mark.rule("C1")
def test_without_valkey_it_still_comes(monkeypatch, settings):
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    headers = bearer("alice")

    async def scenario():
        async with opened(headers) as stream:
            await published("a")
            assert named(await stream.count(1)) == ["a"]

    play(scenario())


def test_while_the_database_is_away_streams_stay_open_and_then_go_on(monkeypatch):
    headers = bearer("alice")
    away = []
    follow = reader.follow

    def broken(*args, **kwargs):
        if away:
            away.append(1)
            raise OperationalError("server closed the connection unexpectedly")
        return follow(*args, **kwargs)

    monkeypatch.setattr(reader, "follow", broken)

    async def scenario():
        async with opened(headers) as stream:
            await published("a")
            await stream.count(1)
            away.append(1)
            await published("b")
            await until(lambda: len(away) > 3)
            assert len(stream.events) == 1
            away.clear()
            assert named(await stream.count(2)) == ["a", "b"]

    play(scenario())


@pytest.mark.rule("C21")
def test_after_a_restore_every_open_stream_is_told_where_to_go_on():
    headers = bearer("alice")

    async def scenario():
        async with opened(headers) as stream:
            await published("a")
            await stream.count(1)
            await apart(lambda: Cluster.objects.update(system_identifier="another"))
            await apart(lambda: Event.objects.all().delete())
            await until(lambda: asgi._hub()._doubtful)
            async with opened(headers) as refused:
                assert refused.status == 503
            await published("b")
            ours = "(SELECT system_identifier::text FROM pg_control_system())"
            await apart(lambda: _run(f"UPDATE outbox_cluster SET system_identifier = {ours}"))
            _, reset, *_ = await stream.count(2)
            assert reset.event == "reset"
            await published("c")
            assert named(await stream.count(3))[-1] == "c"

    play(scenario())


def _run(statement):
    with connection.cursor() as cursor:
        cursor.execute(statement)


def test_a_server_that_cannot_stream_answers_where_to_go_on():
    """Django alone, without the server application around it."""
    publish("a")
    answer = cast.api("alice").get("/events/stream")
    frame = streams.parsed(answer.content.decode().removesuffix("\n\n"))
    assert (frame.id, frame.retry) == (str(reader.end()), 2_000)
