"""Answers that are lost before they reach the command line: nothing happens twice (case 33)."""

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pytest_django.live_server_helper import LiveServer

from bettercompute.cli import main
from bettercompute.client.calls import Answer
from reservations.models import Reservation
from tests.support import cast, make, wire_server
from tests.support.wire_server import DROP, Received, WireServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.case(33), pytest.mark.rule("A8")]

ROOT = Path(__file__).parents[3]
RESERVE = ("reserve", "--pool", "main", "--gpus", "2", "--for", "8h", "--json")
Meanwhile = Callable[[Received, Answer], Answer]


def forward(url: str, received: Received) -> Answer:
    """The product's own answer."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    body = None if received.body is None else json.dumps(received.body)
    kept = ("authorization", "content-type", "accept")
    headers = {name: value for name, value in received.headers.items() if name in kept}
    try:
        connection.request(received.method, received.path, body, headers)
        answered = connection.getresponse()
        return Answer(answered.status, {"Content-Type": "application/json"}, answered.read())
    finally:
        connection.close()


@pytest.fixture
def relay(
    live_server: LiveServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Callable[[Meanwhile], WireServer]]:
    """A way to the product on which answers may be lost; bob is signed in through it."""
    import contextlib

    with contextlib.ExitStack() as running:

        def start(meanwhile: Meanwhile) -> WireServer:
            def answer(received: Received) -> Answer:
                return meanwhile(received, forward(live_server.url, received))

            server = running.enter_context(wire_server.serve(answer))
            monkeypatch.setenv("BETTER_COMPUTE_URL", server.url)
            return server

        make.pool(name="main", nodes=1, gpus=8, quota_gpus=8)
        monkeypatch.setenv("BETTER_COMPUTE_TOKEN", cast.token("bob")[1])
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
        monkeypatch.delenv("BETTER_COMPUTE_TENANT", raising=False)
        yield start


def reserve(capsys: pytest.CaptureFixture[str], *more: str) -> Any:
    capsys.readouterr()
    assert main.run([*RESERVE, *more]) == 0
    return json.loads(capsys.readouterr().out)


def is_create(received: Received) -> bool:
    return received.method == "POST" and received.path.endswith("/reservations")


def test_an_answer_lost_on_the_way_is_asked_for_again_and_makes_one(
    relay: Callable[[Meanwhile], WireServer], capsys: pytest.CaptureFixture[str]
) -> None:
    lost: list[Answer] = []

    def lose_the_first(received: Received, answer: Answer) -> Answer:
        if is_create(received) and not lost:
            lost.append(answer)
            return DROP
        return answer

    relay(lose_the_first)
    made = reserve(capsys)
    assert made["id"] == json.loads(lost[0].body)["id"]
    assert Reservation.objects.count() == 1


def test_killed_after_the_commit_and_before_the_answer_the_next_run_finds_it(
    relay: Callable[[Meanwhile], WireServer], capsys: pytest.CaptureFixture[str]
) -> None:
    killed: list[subprocess.Popen[bytes]] = []

    def kill_it(received: Received, answer: Answer) -> Answer:
        if is_create(received) and killed[0].poll() is None:
            killed[0].kill()
            killed[0].wait()
            return DROP
        return answer

    relay(kill_it)
    command = [sys.executable, "-m", "bettercompute.cli.main", *RESERVE]
    killed.append(subprocess.Popen(command, cwd=ROOT, env=dict(os.environ)))
    killed[0].wait(timeout=60)
    (first,) = Reservation.objects.all()

    found = reserve(capsys)
    assert found["id"] == first.pk
    assert Reservation.objects.count() == 1

    other = reserve(capsys)
    assert other["id"] != first.pk, "what was answered is over: the same words mean one more"
