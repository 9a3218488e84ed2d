"""Following a stream of events: parsed in any pieces, opened again where it broke (A7, A9)."""

import asyncio
import itertools
import json

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bettercompute.client import failures, following, sse
from bettercompute.client.asynchronous import AsyncClient
from bettercompute.client.blocking import Client
from bettercompute.client.calls import Answer, Lost
from bettercompute.client.flows import Api
from bettercompute.client.following import Following
from tests.support import answers

pytestmark = pytest.mark.rule("A7", "A9")

OPENING = "retry: 2000\nid: 1-1\n\n"
LOST = Lost("refused", sent=False)


def event(number):
    body = {
        "id": f"evt_{number}",
        "type": "reservation.placed",
        "tenantId": "ten_a",
        "subject": "reservation/rsv_a",
        "data": {"note": "a line\nand another, ü"},
        "time": number,
    }
    return f"id: {number}-1\nevent: reservation.placed\ndata: {json.dumps(body)}\n\n"


def reset(position):
    return f'id: {position}\nevent: reset\ndata: {{"position":"{position}","detail":"gone"}}\n\n'


def frames(parser, *chunks):
    return [frame for chunk in chunks for frame in parser.feed(chunk)]


@given(st.data())
def test_frames_are_the_same_however_the_bytes_are_cut(data):
    whole = (OPENING + ": still here\n\n" + event(2) + event(3)).encode()
    cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)), max_size=8)))
    edges = [0, *cuts, len(whole)]
    pieces = [whole[low:high] for low, high in itertools.pairwise(edges)]
    assert frames(sse.Parser(), *pieces) == frames(sse.Parser(), whole)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("data: a\ndata: b\n\n", sse.Frame(data="a\nb")),
        ("data:a\r\nid:7\r\n\r\n", sse.Frame(id="7", data="a")),
        ("event: x\n\n", sse.Frame(event="x")),
        ("id\n\n", sse.Frame(id="")),
        ("id: 1\x002\n\n", sse.Frame()),
        ("retry: soon\n\n", sse.Frame()),
        ("retry: 12\n\n", sse.Frame(retry_ms=12)),
        ("data:  two spaces\n\n", sse.Frame(data=" two spaces")),
        ("nonsense: x\n\n", sse.Frame()),
    ],
)
def test_fields_are_read_as_browsers_read_them(text, found):
    assert frames(sse.Parser(), text.encode()) == [found]


def test_an_event_without_end_is_refused_before_it_fills_the_memory(monkeypatch):
    monkeypatch.setattr(sse, "FRAME_MAX", 100)
    parser = sse.Parser()
    with pytest.raises(sse.FrameTooLarge):
        frames(parser, *[b"data: " + b"x" * 20 + b"\n"] * 10)
    with pytest.raises(sse.FrameTooLarge):
        sse.Parser().feed(b"x" * 101)


def follower(**more):
    now = [0.0]
    api = Api(timeout_seconds=30, monotonic=lambda: now[0], jitter=lambda low, high: high)
    return Following(api, (), **more), now


def test_an_id_without_an_event_moves_the_place_to_go_on_from():
    stream, _ = follower()
    assert list(stream.feed(OPENING.encode())) == []
    assert stream.headers["Last-Event-ID"] == "1-1"
    (streamed,) = stream.feed(event(2).encode())
    assert (streamed.position, streamed.event.id) == ("2-1", "evt_2")
    list(stream.feed(b": still here\nid: 5-1\n\n"))
    assert stream.headers["Last-Event-ID"] == "5-1"


def test_a_reset_is_told_as_a_place_without_an_event():
    stream, _ = follower(position="1-1")
    (streamed,) = stream.feed(reset("9-9").encode())
    assert (streamed.position, streamed.event) == ("9-9", None)
    assert stream.position == "9-9"


def test_the_place_is_that_of_the_last_event_that_was_taken():
    stream, _ = follower()
    taken = stream.feed((OPENING + event(2) + event(3)).encode())
    next(taken)
    assert stream.position == "2-1"


def test_pauses_grow_and_are_as_short_as_the_server_says_after_a_proper_end():
    stream, _ = follower()
    list(stream.feed(b"retry: 500\n\n"))
    assert stream.lose(None) == 0.5
    assert [stream.lose(LOST) for _ in range(8)] == [0.5, 1, 2, 4, 8, 16, 30, 30]
    list(stream.feed(event(2).encode()))
    assert stream.lose(LOST) == 0.5
    busy = Answer(503, {"retry-after": "7"}, b"")
    assert stream.lose(busy) == 7 + 1


def test_it_gives_up_when_the_server_was_not_reached_for_minutes():
    stream, now = follower()
    stream.lose(LOST)
    now[0] = following.PATIENCE_SECONDS
    stream.lose(LOST)
    now[0] += 1
    with pytest.raises(failures.Unreachable) as raised:
        stream.lose(LOST)
    assert raised.value.attempts == 3


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (401, "UNAUTHENTICATED", failures.Unauthenticated),
        (403, "ACCESS_DENIED", failures.AccessDenied),
        (404, "NOT_FOUND", failures.NotFound),
        (400, "INVALID_INPUT", failures.InvalidInput),
    ],
)
def test_what_waiting_does_not_help_is_raised_at_once(status, code, error):
    stream, _ = follower()
    body = json.dumps(answers.problem(status, code)).encode()
    with pytest.raises(error):
        stream.lose(Answer(status, {}, body))


def test_a_certificate_that_is_not_trusted_is_said_at_once_and_as_what_it_is():
    stream, _ = follower()
    with pytest.raises(failures.Unreachable) as raised:
        stream.lose(Lost("self-signed certificate", sent=False, trouble=failures.Trouble.TRUST))
    assert raised.value.trouble is failures.Trouble.TRUST


def test_no_proxy_is_invited_to_compress_a_stream_that_is_read_as_it_comes():
    stream, _ = follower()
    assert stream.headers["Accept-Encoding"] == "identity"


class Broken(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """A stream that breaks off behind what it says."""

    def __init__(self, text, *, breaks):
        self.text, self.breaks = text.encode(), breaks

    def __iter__(self):
        for start in range(0, len(self.text), 7):
            yield self.text[start : start + 7]
        if self.breaks:
            raise httpx2.ReadError("connection reset")

    async def __aiter__(self):
        for piece in Broken.__iter__(self):
            yield piece


def transport(seen):
    """Answers in turn: a stream that breaks, one that ends, a busy server, and no more right."""
    turns = iter(
        [
            Broken(OPENING + event(2) + event(3)[:20], breaks=True),
            Broken(event(3) + "retry: 1\n\n", breaks=False),
            503,
            Broken(event(4), breaks=False),
            401,
        ]
    )

    def answer(request):
        seen.append(request.headers.get("Last-Event-ID"))
        turn = next(turns)
        if isinstance(turn, int):
            return httpx2.Response(turn, json=answers.problem(turn, "UNAUTHENTICATED"))
        return httpx2.Response(200, stream=turn)

    return httpx2.MockTransport(answer)


def test_the_blocking_client_follows_through_all_that_ends_a_stream():
    seen, ids = [], []
    with Client("http://compute.example", "bct_x", "ten_a", transport_=transport(seen)) as client:
        client.api.jitter = lambda low, high: 0.0
        with pytest.raises(failures.Unauthenticated):
            ids.extend(each.event.id for each in client.events.stream())
    assert ids == ["evt_2", "evt_3", "evt_4"]
    assert seen == [None, "2-1", "3-1", "3-1", "4-1"]


def test_the_asynchronous_client_does_the_same():
    seen, ids = [], []

    async def run():
        made = AsyncClient("http://compute.example", "bct_x", "ten_a", transport_=transport(seen))
        async with made as client:
            client.api.jitter = lambda low, high: 0.0
            async for each in client.events.stream():
                ids.append(each.event.id)  # noqa: PERF401  # what came before the error counts

    with pytest.raises(failures.Unauthenticated):
        asyncio.run(run())
    assert ids == ["evt_2", "evt_3", "evt_4"]
    assert seen == [None, "2-1", "3-1", "3-1", "4-1"]


def test_a_stream_begins_where_it_is_told():
    seen = []
    with Client("http://compute.example", "bct_x", "ten_a", transport_=transport(seen)) as client:
        stream = client.events.stream(after="7-7", types=["node.*"], subject="node/n")
        assert next(stream).event.id == "evt_2"
    assert seen == ["7-7"]
