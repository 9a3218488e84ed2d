"""Runs the command line in this process, with settings, time and server of its own."""

import contextlib
import email.utils
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bettercompute.cli import main, session, settings, times
from bettercompute.client import blocking
from bettercompute.client.calls import Answer
from tests.support import answers, wire_server
from tests.support.wire_server import Received, WireServer

TOKEN = "bct_secret"
Routes = Mapping[tuple[str, str], Answer | Callable[[Received], Answer]]


@dataclass(frozen=True)
class Result:
    """How a run came out."""

    code: int
    out: str
    err: str


Run = Callable[..., Result]
Serve = Callable[[Routes], WireServer]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home; no variable of ours is set; it is Monday 2 March 2026, 09:00 in Berlin."""
    for name in ("URL", "TOKEN", "TENANT", "CONTEXT"):
        monkeypatch.delenv(f"BETTER_COMPUTE_{name}", raising=False)
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    # The command line sets up no logging; the server's, set up in this process, is not its own.
    monkeypatch.setattr(logging.getLogger("httpx2"), "disabled", True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TZ", "Europe/Berlin")
    now = times.from_ms(answers.NOW_MS - answers.HOUR_MS)
    monkeypatch.setattr(times, "now", lambda: now)
    date = email.utils.format_datetime(now, usegmt=True)
    monkeypatch.setattr("http.server.BaseHTTPRequestHandler.date_time_string", lambda *_: date)
    return tmp_path


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting takes no time: a pause moves the client's own clock instead."""
    moved = [0.0]
    real_connect = session.connect

    def connect(target: settings.Target) -> blocking.Client:
        client = real_connect(target)
        client.api.monotonic = lambda: moved[0]
        return client

    def sleep(seconds: float) -> None:
        moved[0] += seconds

    monkeypatch.setattr(session, "connect", connect)
    monkeypatch.setattr(blocking.time, "sleep", sleep)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command line."""

    def run_(*arguments: str) -> Result:
        capsys.readouterr()
        code = main.run(arguments)
        captured = capsys.readouterr()
        return Result(int(code), captured.out, captured.err)

    return run_


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Answer these routes (below /api/v1, without the query), and be signed in there as acme."""
    with contextlib.ExitStack() as running:

        def start(routes: Routes) -> WireServer:
            def answer(received: Received) -> Answer:
                path = received.path.partition("?")[0].removeprefix("/api/v1")
                found: Any = routes.get((received.method, path))
                if found is None:
                    return answers.refusal(404, "NOT_FOUND", f"no {path} here")
                return found if isinstance(found, Answer) else found(received)

            server = running.enter_context(wire_server.serve(answer))
            monkeypatch.setenv(settings.URL_VARIABLE, server.url)
            monkeypatch.setenv(settings.TOKEN_VARIABLE, TOKEN)
            monkeypatch.setenv(settings.TENANT_VARIABLE, answers.TENANT_ID)
            return server

        yield start
