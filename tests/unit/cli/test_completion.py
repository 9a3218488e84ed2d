"""What shells offer: real ones, where they are installed, and the words behind them."""

import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from bettercompute.cli import completing, contexts, main, times
from bettercompute.cli.contexts import Config, Context
from bettercompute.client.calls import Answer
from tests.support import answers
from tests.support.wire_server import Received, WireServer
from tests.unit.cli.conftest import Run, Serve

ROOT = Path(__file__).parents[3]
DANGEROUS = {**answers.pool("evil"), "name": "$(touch pwned)"}
POOLS = answers.answer(
    {"items": [answers.pool("main"), answers.pool("mig"), DANGEROUS], "nextCursor": None}
)

#: How each shell is asked what it would offer for a line whose last word is being typed.
BASH = """
source "$SCRIPT"
read -ra COMP_WORDS <<< "${LINE//=/ = }"; [[ $LINE == *' ' ]] && COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_better_compute_completion better-compute
printf '%s\\n' "${COMPREPLY[@]}"
"""
ZSH = """
compdef() { :; }
_describe() { local -a offered=("${(@P)3}"); print -rl -- "${(@)offered%%:*}"; }
compadd() { local -a offered=("${(@P)5}"); print -rl -- "${(@)offered}"; }
source "$SCRIPT"
words=(${(z)LINE}); [[ $LINE == *' ' ]] && words+=('')
CURRENT=${#words}
_better_compute_completion
"""
FISH = 'source "$SCRIPT"; complete -C "$LINE"'
SHELLS = {
    "bash": ["bash", "--norc", "-c", BASH],
    "zsh": ["zsh", "-f", "-c", ZSH],
    "fish": ["fish", "--no-config", "-c", FISH],
}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A directory with `better-compute`, which runs this tree."""
    directory = tmp_path / "bin"
    directory.mkdir()
    script = directory / "better-compute"
    script.write_text(
        f'#!/bin/sh\ncd "{ROOT}" && exec "{sys.executable}" -m bettercompute.cli.main "$@"\n'
    )
    script.chmod(0o755)
    return directory


@pytest.fixture
def said() -> list[str]:
    """All that a shell printed, as it did."""
    return []


@pytest.fixture(params=SHELLS)
def offered(
    request: pytest.FixtureRequest, program: Path, tmp_path: Path, run: Run, said: list[str]
) -> Callable[[str], set[str]]:
    """What a shell offers for a line."""
    shell = str(request.param)
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / "script"
    script.write_text(run("completion", shell).out)

    def offered_(line: str) -> set[str]:
        environ = {**os.environ, "PATH": f"{program}:{os.environ['PATH']}", "HOME": str(tmp_path)}
        done = subprocess.run(
            SHELLS[shell],
            env={**environ, "SCRIPT": str(script), "LINE": line},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert done.stderr == ""
        said[:] = done.stdout.splitlines()
        return {line.partition("\t")[0] for line in done.stdout.splitlines() if line}

    return offered_


@pytest.mark.rule("A8")
def test_a_shell_offers_commands_and_what_there_is(
    offered: Callable[[str], set[str]], serve: Serve, tmp_path: Path
) -> None:
    serve({("GET", "/pools"): POOLS})
    assert offered("better-compute re") == {"reserve", "renew", "release"}
    # A name that a shell would act on is offered by its id.
    found: set[str] = set()
    for _ in range(5):  # a busy machine may take longer than a shell waits, and offer nothing
        found = found or offered("better-compute reserve --pool ")
    assert found == {"main", "mig", "pool_evil"}
    assert not list(tmp_path.glob("**/pwned"))


def test_a_value_after_an_equals_sign_is_offered_as_the_shell_takes_it(
    offered: Callable[[str], set[str]], request: pytest.FixtureRequest
) -> None:
    line = "better-compute reserve --pool=main --class=gpu"
    found = offered(f"{line}.")
    # Bash replaces what is after the sign, the others the whole word.
    before = "" if "bash" in request.node.name else "--class="
    assert found == {f"{before}gpu.mig", f"{before}gpu.slot"}


@pytest.mark.parametrize("offered", ["fish"], indirect=True)
def test_a_description_is_whole_whatever_commas_it_has(
    offered: Callable[[str], set[str]], said: list[str]
) -> None:
    assert offered("better-compute confirmations de") == {"deny"}
    assert said == ["deny\tRefuse it, and tell the agent why."]


def test_each_value_of_a_list_is_offered_once(words: Callable[..., list[str]]) -> None:
    create = ("tokens", "create", "night", "--confirm")
    assert words(*create, "") == ["create", "extend", "release", "share", "all"]
    assert words(*create, "extend,re") == ["extend,release"]
    assert words(*create, "extend,e") == []


@pytest.fixture
def words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., list[str]]:
    """What is answered to a shell, in this process, however long the server takes."""
    monkeypatch.setattr(completing, "ANSWER_SECONDS", 60.0)

    def words_(*typed: str) -> list[str]:
        monkeypatch.setenv("_BETTER_COMPUTE_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", " ".join(["better-compute", *typed]))
        monkeypatch.setenv("COMP_CWORD", str(len(typed)))
        capsys.readouterr()
        with pytest.raises(SystemExit):
            main.run([])
        captured = capsys.readouterr()
        assert captured.err == ""
        return [line.partition(",")[2] for line in captured.out.splitlines() if line]

    return words_


def listing(*states: str) -> Answer:
    items = [answers.reservation(state, id=f"rsv_{state}") for state in states]
    return answers.answer({"items": items, "nextCursor": None})


def test_what_can_be_released_is_offered_to_release_and_all_to_get(
    words: Callable[..., list[str]], serve: Serve
) -> None:
    def answer(received: Received) -> Answer:
        return listing("active") if "state=active" in received.path else listing("active", "failed")

    serve({("GET", "/reservations"): answer})
    assert words("release", "rsv_") == ["rsv_active"]
    assert words("get", "rsv_") == ["rsv_active", "rsv_failed"]


def test_the_server_is_asked_once_in_half_a_minute(
    words: Callable[..., list[str]], serve: Serve, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    server = serve({("GET", "/reservations"): listing("active")})
    for _ in range(3):
        assert words("get", "") == ["rsv_active"]
    assert len(server.received) == 1
    (kept,) = (home / "cache" / "better-compute").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert "bct" not in kept.name + kept.read_text()
    later = times.now() + timedelta(milliseconds=completing.FRESH_MS)
    monkeypatch.setattr(times, "now", lambda: later)
    assert words("get", "") == ["rsv_active"]
    assert len(server.received) == 2


def test_the_context_that_is_typed_is_asked(
    words: Callable[..., list[str]], serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = serve({("GET", "/reservations"): listing("active")})
    here = serve({})
    where = contexts.directory(os.environ)
    contexts.change(where, lambda _: Config(None, {"other": Context(other.url, contexts.FILE)}))
    contexts.keep_secret(where, "other", url=other.url, token="bct_other")
    assert words("get", "--context", "") == ["other"]
    assert words("get", "--context", "other", "rsv") == ["rsv_active"]
    assert here.received == []


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that takes connections and never answers."""
    over = threading.Event()
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        over.set()


@pytest.mark.parametrize("trouble", ["silent", "refused", "broken", "signed out", "nonsense"])
def test_whatever_is_wrong_nothing_is_offered_and_nothing_said(
    words: Callable[..., list[str]],
    serve: Serve,
    silent: str,
    trouble: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server: WireServer = serve({("GET", "/pools"): answers.refusal(401, "UNAUTHENTICATED")})
    monkeypatch.setattr(completing, "ANSWER_SECONDS", 0.2)
    match trouble:
        case "silent":
            monkeypatch.setenv("BETTER_COMPUTE_URL", silent)
        case "broken":
            monkeypatch.delenv("BETTER_COMPUTE_TOKEN")
            where = contexts.directory(os.environ)
            contexts.change(where, lambda config: config)
            contexts.config_file(where).write_text("{")
        case "signed out":
            monkeypatch.delenv("BETTER_COMPUTE_TOKEN")
        case "nonsense":
            server.answer = lambda _: Answer(200, {}, b"<html>")
    assert words("pools", "show", "ma") == []
    assert words("get", "--context", "x") == []
