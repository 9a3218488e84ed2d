"""Calls to whichever gateway answers, without any of them."""

import asyncio
import json
from random import Random

import httpx2
import pytest

from bettercompute.agent.link import Backoff, Link, Refused, SessionEnded, Superseded, Unreachable


def ask(answers, *, times=1):
    """What each of so many calls led to, and which hosts were asked."""
    asked = []

    def respond(request):
        asked.append(request.url.host)
        answer = answers[request.url.host]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def play():
        outcomes = []
        transport = httpx2.MockTransport(respond)
        async with httpx2.AsyncClient(transport=transport) as client:
            link = Link([f"http://{host}" for host in answers], client)
            for _ in range(times):
                try:
                    outcomes.append(await link.call("GET", "/node/v1/desired"))
                except (Refused, SessionEnded, Superseded, Unreachable) as error:
                    outcomes.append(type(error))
        return outcomes

    return asyncio.run(play()), asked


def problem(status, code):
    return httpx2.Response(status, content=json.dumps({"code": code, "detail": "why"}))


@pytest.mark.rule("N8")
@pytest.mark.parametrize(
    "failure",
    [
        httpx2.ConnectError("refused"),
        httpx2.ReadTimeout("silence"),
        problem(503, "UNAVAILABLE"),
        httpx2.Response(502, text="<html>a proxy"),
        problem(429, "RATE_LIMITED"),
    ],
)
def test_a_gateway_that_fails_is_left_for_the_next(failure):
    outcomes, asked = ask({"one": failure, "two": httpx2.Response(200, text="ok")}, times=3)
    assert outcomes == [Unreachable, b"ok", b"ok"]
    assert asked == ["one", "two", "two"]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (problem(401, "UNAUTHENTICATED"), SessionEnded),
        (problem(409, "SESSION_SUPERSEDED"), Superseded),
        (problem(400, "INVALID_INPUT"), Refused),
        (problem(404, "NOT_FOUND"), Refused),
        (httpx2.Response(403, content=b"[]"), Refused),
    ],
)
def test_a_gateway_that_answers_is_kept(answer, error):
    outcomes, asked = ask({"one": answer, "two": httpx2.Response(200)}, times=2)
    assert outcomes == [error, error]
    assert asked == ["one", "one"]


@pytest.mark.rule("N8")
def test_waits_grow_and_differ_and_stay_bounded():
    backoff = Backoff(random=Random(1))
    waits = [backoff.next() for _ in range(12)]
    assert waits[0] <= 0.2
    assert all(5.0 <= wait <= 10.0 for wait in waits[6:])
    assert len(set(waits)) == len(waits)
    backoff.reset()
    assert backoff.next() <= 0.2


def test_many_failures_in_a_row_do_not_overflow():
    backoff = Backoff(random=Random(1))
    for _ in range(5_000):
        assert backoff.next() <= 10.0
