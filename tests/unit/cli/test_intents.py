"""A command that got no answer, run again, goes on with what it began."""

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bettercompute.cli import contexts, intents, times
from bettercompute.cli.exits import Exit
from bettercompute.client import blocking
from bettercompute.client.calls import Answer
from tests.support import answers
from tests.support.wire_server import DROP, Received, WireServer
from tests.unit.cli.conftest import Run, Serve

RESERVE = ("reserve", "--pool", "main", "--gpus", "2", "--for", "8h")
LATER = (*RESERVE, "--start", "in 2h")
POOLS = answers.answer({"items": [answers.pool()], "nextCursor": None})
MADE = answers.answer(answers.reservation("placed"), 201)

pytestmark = [pytest.mark.rule("A8"), pytest.mark.case(33)]


@pytest.fixture
def server(serve: Serve) -> WireServer:
    """A server that never answers a create."""
    return serve({("GET", "/pools"): POOLS, ("POST", "/reservations"): DROP})


def answer_with(server: WireServer, answer: Answer) -> None:
    """From now on creates are answered so."""
    server.answer = lambda received: answer if received.method == "POST" else POOLS


def sent(server: WireServer) -> Iterator[Any]:
    """The bodies of the creates, one for each command."""
    before = None
    for received in server.received:
        if received.method == "POST" and received.body != before:
            before = received.body
            yield received.body


def keys(server: WireServer) -> list[str]:
    return [body["idempotencyKey"] for body in sent(server)]


def files() -> list[Path]:
    return list((contexts.directory(os.environ) / "intents").iterdir())


def test_run_again_it_sends_the_same_request_with_the_same_key(
    run: Run, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(*LATER).code == Exit.ERROR
    answer_with(server, MADE)
    later = times.now() + timedelta(minutes=3)
    monkeypatch.setattr(times, "now", lambda: later)  # "in 2h" is another instant now
    again = run(*LATER)
    assert again.code == 0
    assert "Going on with the same command of today 09:00, which got no answer" in again.err
    assert len(list(sent(server))) == 1, "one body, start and key included"
    assert files() == []


def test_once_it_is_answered_the_same_words_mean_another(run: Run, server: WireServer) -> None:
    answer_with(server, MADE)
    for _ in range(2):
        assert run(*RESERVE).code == 0
    assert len(set(keys(server))) == 2


@pytest.mark.parametrize(
    ("status", "code", "left"), [(409, "QUOTA_EXCEEDED", 0), (500, "INTERNAL", 1)]
)
def test_what_was_refused_is_over_and_what_failed_is_not(
    run: Run, server: WireServer, status: int, code: str, left: int
) -> None:
    answer_with(server, answers.refusal(status, code))
    run(*RESERVE)
    assert len(files()) == left


@pytest.mark.parametrize(
    "more", [("--gpus", "3"), ("--tenant", "ten_x"), ("--key", "mine"), ("--user", "bob")]
)
def test_other_words_are_another_intent(
    run: Run, server: WireServer, more: tuple[str, ...]
) -> None:
    run(*RESERVE)
    server.answer = lambda received: (
        MADE
        if received.method == "POST"
        else answers.answer(answers.members("bob"))
        if "members" in received.path
        else POOLS
    )
    assert run(*RESERVE, *more).code == 0
    assert len(set(keys(server))) == 2


def test_so_is_another_identity(
    run: Run, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(*RESERVE)
    monkeypatch.setenv("BETTER_COMPUTE_TOKEN", "bct_other")
    run(*RESERVE)
    assert len(set(keys(server))) == 2


def test_after_a_quarter_of_an_hour_it_is_forgotten(
    run: Run, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(*RESERVE)
    later = times.now() + timedelta(milliseconds=intents.WITHIN_MS)
    monkeypatch.setattr(times, "now", lambda: later)
    answer_with(server, MADE)
    run(*RESERVE)
    assert len(set(keys(server))) == 2
    assert files() == []


def test_one_that_still_runs_is_not_taken_over(run: Run, server: WireServer) -> None:
    run(*RESERVE)
    (file,) = files()
    with file.open() as running:
        fcntl.flock(running, fcntl.LOCK_EX)
        run(*RESERVE)
    assert len(set(keys(server))) == 2


def test_an_interrupt_while_it_is_sent_says_how_to_go_on(
    run: Run, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = blocking.Client._send

    def interrupt(client: blocking.Client, send: Any) -> Any:
        if send.call.method == "POST":
            real(client, send)
            raise KeyboardInterrupt
        return real(client, send)

    with monkeypatch.context() as interrupted:
        interrupted.setattr(blocking.Client, "_send", interrupt)
        result = run(*RESERVE)
    assert result.code == Exit.INTERRUPTED
    (key,) = keys(server)
    assert f"--key {key}" in result.err
    answer_with(server, MADE)
    assert run(*RESERVE).code == 0
    assert keys(server) == [key]


def test_what_was_being_written_when_it_died_was_never_sent(run: Run, server: WireServer) -> None:
    run(*RESERVE)
    (file,) = files()
    file.write_text(file.read_text()[:40])
    answer_with(server, MADE)
    run(*RESERVE)
    assert len(set(keys(server))) == 2
    assert files() == []


def test_a_file_that_cannot_be_opened_hides_no_other(run: Run, server: WireServer) -> None:
    run(*RESERVE)
    (file,) = files()
    (file.parent / "0.json").symlink_to("nowhere")  # looked at first, and gone when it is opened
    answer_with(server, MADE)
    run(*RESERVE)
    assert len(set(keys(server))) == 1


def test_without_a_disk_to_write_it_works_and_says_the_key(
    run: Run, server: WireServer, home: Path
) -> None:
    (home / "better-compute").write_text("in the way")
    result = run(*RESERVE)
    assert result.code == Exit.ERROR
    assert f"--key {keys(server)[0]}" in result.err
    answer_with(server, MADE)
    assert run(*RESERVE).code == 0


def test_the_file_is_private_and_has_no_token(run: Run, server: WireServer) -> None:
    run(*RESERVE)
    (file,) = files()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert json.loads(file.read_text())["request"]["duration"] == "28800000ms"
    assert "bct_" not in file.read_text() + file.name


def test_an_extension_is_gone_on_with_as_well(run: Run, serve: Serve) -> None:
    extended = {"reservation": answers.reservation(), "extended": True, "availableUntil": None}
    outcome: list[Answer] = [DROP]
    answer: Callable[[Received], Answer] = lambda _: outcome[0]  # noqa: E731
    server = serve({("POST", "/reservations/rsv_first/extend"): answer})
    assert run("extend", "rsv_first", "--by", "4h").code == Exit.ERROR
    outcome[0] = answers.answer(extended)
    assert run("extend", "rsv_first", "--by", "4h").code == 0
    assert len(set(keys(server))) == 1
    assert run("extend", "rsv_first", "--by", "4h").code == 0
    assert len(set(keys(server))) == 2
