"""`better-compute doctor`"""

import json
import os
import socket

import pytest

from bettercompute.cli import contexts, settings
from bettercompute.cli.contexts import Config, Context
from bettercompute.cli.exits import Exit
from bettercompute.client.calls import Answer
from tests.support import answers
from tests.support.wire_server import Received, WireServer
from tests.unit.cli.conftest import Result, Run, Serve

NOW = "Mon, 02 Mar 2026 08:00:00 GMT"  # what the machine's clock says in these tests
HEALTHY = {
    ("GET", "/healthz"): Answer(200, {}, b'{"status":"ok"}'),
    ("GET", "/readyz"): Answer(200, {}, b'{"status":"ready"}'),
    ("GET", "/whoami"): answers.answer(answers.whoami()),
}


def verdicts(result: Result) -> dict[str, str]:
    return {each["check"]: each["verdict"] for each in json.loads(result.out)["checks"]}


def advice(result: Result, check: str) -> str:
    (found,) = [each for each in json.loads(result.out)["checks"] if each["check"] == check]
    return str(found["do"])


@pytest.fixture
def healthy(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> WireServer:
    """A server where all is well."""
    monkeypatch.setattr("http.server.BaseHTTPRequestHandler.date_time_string", lambda *_: NOW)
    return serve(HEALTHY)


@pytest.mark.rule("A8")
def test_where_all_is_well_every_check_says_so(run: Run, healthy: WireServer) -> None:
    result = run("doctor")
    assert result.code == 0
    lines = [line.split()[:2] for line in result.out.splitlines()[1:]]
    assert lines == [
        ["ok", "settings.target"],
        ["ok", "settings.encrypted"],
        ["ok", "server.reachable"],
        ["ok", "server.alive"],
        ["ok", "server.ready"],
        ["ok", "clock.difference"],
        ["ok", "token.valid"],
    ]


def test_nobody_signed_in_is_the_first_thing_to_mend(run: Run) -> None:
    result = run("doctor", "--json")
    assert result.code == Exit.ERROR
    assert verdicts(result) == {"settings.target": "failed"}
    assert "better-compute login" in advice(result, "settings.target")


def test_a_broken_settings_file_is_found(run: Run) -> None:
    where = contexts.directory(os.environ)
    contexts.change(where, lambda config: config)
    contexts.config_file(where).write_text("{")
    result = run("doctor", "--json")
    assert result.code == Exit.ERROR
    assert verdicts(result)["settings.target"] == "failed"


def test_an_address_that_is_none_is_found(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(settings.URL_VARIABLE, "compute.example.org")
    monkeypatch.setenv(settings.TOKEN_VARIABLE, "bct_x")
    assert verdicts(run("doctor", "--json")) == {"settings.target": "failed"}


def test_a_file_that_others_may_read_is_warned_about(
    run: Run, healthy: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (settings.URL_VARIABLE, settings.TOKEN_VARIABLE, settings.TENANT_VARIABLE):
        monkeypatch.delenv(name)
    where = contexts.directory(os.environ)
    here = Context(healthy.url, contexts.FILE, answers.TENANT_ID)
    contexts.change(where, lambda _: Config("here", {"here": here}))
    contexts.keep_secret(where, "here", url=healthy.url, token="bct_x")
    contexts.token_file(where, "here").chmod(0o644)
    result = run("doctor", "--json")
    assert result.code == 0
    assert verdicts(result)["settings.private"] == "warning"
    assert "tokens revoke" in advice(result, "settings.private")
    assert verdicts(run("doctor", "--json"))["settings.private"] == "ok"


def test_nobody_listening_is_unreachable(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but it does not listen
        monkeypatch.setenv(settings.URL_VARIABLE, f"http://127.0.0.1:{taken.getsockname()[1]}")
        monkeypatch.setenv(settings.TOKEN_VARIABLE, "bct_x")
        result = run("doctor", "--json")
    assert result.code == Exit.ERROR
    assert verdicts(result)["server.reachable"] == "failed"
    assert "token.valid" not in verdicts(result)


@pytest.mark.parametrize(
    ("path", "answer", "check"),
    [
        ("/healthz", Answer(404, {}, b"<html>"), "server.alive"),
        ("/readyz", Answer(503, {}, b'{"reason":"migrations are pending"}'), "server.ready"),
        ("/whoami", answers.refusal(401, "UNAUTHENTICATED"), "token.valid"),
        ("/whoami", answers.refusal(500, "INTERNAL"), "token.valid"),
        ("/whoami", answers.answer(answers.whoami("globex", "initech")), "token.tenant"),
    ],
)
def test_what_is_wrong_is_named_with_what_to_do(
    run: Run, healthy: WireServer, path: str, answer: Answer, check: str
) -> None:
    usual = healthy.answer

    def answered(received: Received) -> Answer:
        asked = received.path.removeprefix("/api/v1")
        return answer if asked == path else usual(received)

    healthy.answer = answered
    result = run("doctor", "--json")
    assert result.code == Exit.ERROR
    assert verdicts(result)[check] == "failed"
    assert advice(result, check)


@pytest.mark.parametrize(
    "case",
    [
        ("Mon, 02 Mar 2026 08:00:04 GMT", "ok", "4 s behind"),
        ("Mon, 02 Mar 2026 08:01:30 GMT", "warning", "90 s behind"),
        ("Mon, 02 Mar 2026 07:58:00 GMT", "warning", "120 s ahead of"),
    ],
)
def test_a_clock_that_is_off_is_measured(
    run: Run,
    healthy: WireServer,
    monkeypatch: pytest.MonkeyPatch,
    case: tuple[str, str, str],
) -> None:
    server_says, verdict, words = case
    monkeypatch.setattr(
        "http.server.BaseHTTPRequestHandler.date_time_string", lambda *_: server_says
    )
    result = run("doctor", "--json")
    assert result.code == 0
    assert verdicts(result)["clock.difference"] == verdict
    assert words in result.out


def test_scripts_read_the_names_of_what_is_not_well(run: Run, healthy: WireServer) -> None:
    assert run("doctor", "--output", "id").out == ""


def check(name: str, *findings: dict[str, str]) -> dict[str, object]:
    """How a check of the system came out."""
    return {
        "check": name,
        "promise": "It is well.",
        "ok": not findings,
        "findings": list(findings),
        "durationMs": 1,
    }


@pytest.fixture
def operator(healthy: WireServer) -> list[dict[str, object]]:
    """The healthy server as an operator sees it: what its self-check answers can be changed."""
    results = [check("bookings.overlap"), check("queue.lag")]
    usual = healthy.answer

    def answered(received: Received) -> Answer:
        match received.path.removeprefix("/api/v1"):
            case "/whoami":
                return answers.answer(answers.whoami() | {"operator": True})
            case "/selfcheck":
                ok = all(each["ok"] for each in results)
                document = {"ok": ok, "takenAt": 1, "ageMs": 2_400, "checks": results}
                return answers.answer(document)
        return usual(received)

    healthy.answer = answered
    return results


@pytest.mark.rule("C39")
def test_an_operator_hears_that_the_system_keeps_its_promises(
    run: Run, operator: list[dict[str, object]]
) -> None:
    result = run("doctor")
    assert result.code == 0
    assert "2 checks, 2 s ago: 2 are well" in result.out


@pytest.mark.rule("C39")
def test_an_operator_hears_what_is_wrong_by_name_with_what_to_do(
    run: Run, operator: list[dict[str, object]]
) -> None:
    lag = {"message": "7 rows are due", "do": "Start a worker"}
    operator[1] = check("queue.lag", lag)
    result = run("doctor", "--json")
    assert result.code == Exit.ERROR
    assert verdicts(result)["system.checked"] == "ok"
    assert verdicts(result)["queue.lag"] == "failed"
    assert advice(result, "queue.lag") == "Start a worker"
    assert "bookings.overlap" not in verdicts(result)


def test_a_self_check_under_way_is_no_failure(
    run: Run, operator: list[dict[str, object]], healthy: WireServer
) -> None:
    usual = healthy.answer

    def busy(received: Received) -> Answer:
        if received.path.endswith("/selfcheck"):
            return answers.refusal(503, "UNAVAILABLE", "The self-check is running.")
        return usual(received)

    healthy.answer = busy
    result = run("doctor", "--json")
    assert result.code == 0
    assert verdicts(result)["system.checked"] == "warning"


def test_nobody_else_asks_for_it(run: Run, healthy: WireServer) -> None:
    run("doctor")
    assert not any("selfcheck" in received.path for received in healthy.received)
