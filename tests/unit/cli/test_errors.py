"""What is said when something is wrong: what to do next, never a traceback, never a secret."""

import datetime as dt
import ipaddress
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bettercompute import errors
from bettercompute.cli import contexts, explaining, views
from bettercompute.cli.contexts import Config, Context
from bettercompute.cli.exits import Exit
from bettercompute.client import failures
from bettercompute.client.calls import Answer
from tests.support import answers, wire_server
from tests.unit.cli.conftest import TOKEN, Run, Serve

ROOT = Path(__file__).parents[3]
WHOAMI = ("GET", "/whoami")

pytestmark = pytest.mark.rule("A8")


def test_every_code_of_the_wire_says_what_to_do_next() -> None:
    codes = {each.code for each in (errors.ApiError, *errors.ApiError.__subclasses__())}
    for code in codes:
        error = failures.refused(code, "told", status=400)
        assert type(error) is not failures.Refused, f"the client does not know {code}"
        assert explaining.advice(error), code


@pytest.mark.parametrize("trouble", failures.Trouble)
def test_so_does_everything_that_keeps_an_answer_away(trouble: failures.Trouble) -> None:
    assert len(explaining.advice(failures.Unreachable("told", trouble=trouble))) == 2


@pytest.mark.parametrize(
    ("command", "route", "next_"),
    [
        (("release", "rsv_1"), "/reservations/rsv_1/release", "get rsv_1"),
        (("series", "cancel", "ser_1"), "/series/ser_1/cancel", "series get ser_1"),
        (
            ("webhooks", "redeliver", "whk_1", "whd_1"),
            "/webhooks/whk_1/deliveries/whd_1/redeliver",
            "webhooks get whk_1",
        ),
        (
            ("maintenance", "cancel", "mnt_1"),
            "/maintenance/mnt_1/cancel",
            "maintenance get mnt_1",
        ),
    ],
)
def test_a_wrong_state_is_looked_at_where_it_is(
    run: Run, serve: Serve, command: tuple[str, ...], route: str, next_: str
) -> None:
    serve({("POST", route): answers.refusal(409, "INVALID_STATE", "It is over.")})
    result = run(*command)
    assert result.code == Exit.NO_CAPACITY
    assert result.err.splitlines()[1:] == [f"  See its state: better-compute {next_}"]


def test_an_occurrence_that_has_begun_is_looked_at_by_itself() -> None:
    error = failures.InvalidState("It has begun.", details={"reservationId": "rsv_2"})
    error.path = "/api/v1/series/ser_1/skip"
    assert explaining.advice(error) == ["See its state: better-compute get rsv_2"]


def test_what_a_person_refused_their_agent_is_no_policy() -> None:
    error = failures.AccessDenied("The person …", details={"confirmationId": "cnf_1"})
    (told,) = explaining.advice(error)
    assert "better-compute confirmations show cnf_1" in told
    assert "admin" not in told


def test_a_limit_of_a_pool_is_no_policy_of_the_tenant() -> None:
    """By what the server answers: admission says which bounds of the pool were broken."""
    limits = {"poolLimits": ["duration at most 1 d"]}
    error = failures.AccessDenied("The pool main allows: …", details=limits)
    (told,) = explaining.advice(error)
    assert "better-compute pools NAME" in told
    assert "admin" not in told


@pytest.mark.parametrize(
    ("refused", "exit_code"),
    [
        ((409, "CONFLICT", "offer-gone"), Exit.NO_CAPACITY),
        ((409, "CONFLICT", "offer-expired"), Exit.NO_CAPACITY),
        ((404, "NOT_FOUND", "offer-unknown"), Exit.NOT_FOUND),
    ],
)
def test_after_an_offer_that_is_gone_new_ones_are_asked_for(
    run: Run, serve: Serve, refused: tuple[int, str, str], exit_code: Exit
) -> None:
    status, code, reason = refused
    told = answers.answer(answers.problem(status, code, "It is gone.", reason=reason), status)
    serve({("POST", "/reservations"): told})
    result = run("reserve", "--offer", "cof_1")
    assert result.code == exit_code
    assert "whoami" not in result.err
    assert "capacity --offers" in result.err


def test_a_host_that_does_not_exist(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BETTER_COMPUTE_URL", "http://compute.invalid")
    monkeypatch.setenv("BETTER_COMPUTE_TOKEN", TOKEN)
    result = run("whoami")
    assert result.code == Exit.ERROR
    assert "There is no such host" in result.err


@pytest.mark.parametrize(
    "url", ["http://::1:1", "http://[::1", "http://a..b", f"http://{'a' * 64}.example", "http:"]
)
def test_an_address_that_is_none(run: Run, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("BETTER_COMPUTE_URL", url)
    monkeypatch.setenv("BETTER_COMPUTE_TOKEN", TOKEN)
    result = run("whoami")
    assert result.code == Exit.USAGE
    assert "the address must be like https://" in result.err


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("ALL_PROXY", "socks5://127.0.0.1:1", "SOCKS proxy"),
        ("SSL_CERT_FILE", "/nowhere.pem", "SSL_CERT_FILE"),
    ],
)
def test_an_environment_that_cannot_be_used(
    run: Run, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, told: str
) -> None:
    monkeypatch.setenv("BETTER_COMPUTE_URL", "https://compute.invalid")
    monkeypatch.setenv("BETTER_COMPUTE_TOKEN", TOKEN)
    monkeypatch.setenv(variable, value)
    result = run("whoami")
    assert result.code == Exit.ERROR
    assert told in result.err
    assert "itself failed" not in result.err


def test_a_host_where_nothing_listens(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but it does not listen
        monkeypatch.setenv("BETTER_COMPUTE_URL", f"http://127.0.0.1:{taken.getsockname()[1]}")
        monkeypatch.setenv("BETTER_COMPUTE_TOKEN", TOKEN)
        result = run("whoami")
    assert result.code == Exit.ERROR
    assert "Nothing listens there" in result.err


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    """A certificate for 127.0.0.1 that signs itself, with its key, in one file."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ours")])
    today = dt.datetime.fromtimestamp(tmp_path.stat().st_mtime, dt.UTC)
    day = dt.timedelta(days=1)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, today - day, today + day)
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path / "ours.pem"
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    return file


@pytest.fixture
def encrypted(authority: Path) -> Iterator[str]:
    """A server that speaks TLS and answers whoami."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority)
    body = answers.answer(answers.whoami()).body
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                    with context.wrap_socket(connection, server_side=True) as one:
                        one.recv(65_536)
                        one.sendall(head.encode() + body)
                except ssl.SSLError:
                    continue  # whoever came did not trust us
                except OSError:
                    return

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"https://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(timeout=10)


def test_a_certificate_that_is_not_trusted_until_it_is(
    run: Run, encrypted: str, authority: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BETTER_COMPUTE_URL", encrypted)
    monkeypatch.setenv("BETTER_COMPUTE_TOKEN", TOKEN)
    result = run("whoami", "--debug")
    assert result.code == Exit.ERROR
    assert "set SSL_CERT_FILE to its file" in result.err
    assert result.err.count("> GET") == 1, "asking again does not help"
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    assert run("whoami").code == 0


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Answer(200, {"Content-Type": "text/html"}, b"<html>sign in"), "a page for people"),
        (Answer(301, {"Location": "https://new.example/"}, b""), "https://new.example/"),
        (Answer(200, {}, b"{}"), "better-compute doctor"),
        (Answer(404, {}, b""), "better-compute doctor"),
    ],
)
def test_an_address_where_something_else_answers(
    run: Run, serve: Serve, answer: Answer, told: str
) -> None:
    serve({WHOAMI: answer})
    result = run("whoami")
    assert result.code == Exit.ERROR
    assert told in result.err


def test_a_token_that_is_not_good_says_where_it_is_from(
    run: Run, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = answers.refusal(401, "UNAUTHENTICATED", "This API token has expired")
    server = serve({WHOAMI: refused})
    result = run("whoami")
    assert result.code == Exit.NOT_AUTHENTICATED
    assert result.err.splitlines()[1:] == [
        "  The token is the one in BETTER_COMPUTE_TOKEN.",
        "  Sign in again: better-compute login",
    ]
    for name in ("URL", "TOKEN", "TENANT"):
        monkeypatch.delenv(f"BETTER_COMPUTE_{name}")
    where = contexts.directory(os.environ)
    contexts.change(where, lambda _: Config("a", {"a": Context(server.url, contexts.FILE)}))
    contexts.keep_secret(where, "a", url=server.url, token="bct_kept")
    assert "BETTER_COMPUTE_TOKEN" not in run("whoami").err


@pytest.mark.parametrize(
    ("date", "told"),
    [
        ("Mon, 02 Mar 2026 07:00:00 GMT", "This machine's clock is 1 h ahead of the server's"),
        ("Mon, 02 Mar 2026 08:05:00 GMT", "This machine's clock is 5 min behind the server's"),
        ("Mon, 02 Mar 2026 08:00:30 GMT", None),
        ("yesterday", None),
    ],
)
def test_a_wrong_clock_is_said_beside_what_it_may_have_caused(
    run: Run, serve: Serve, date: str, told: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("http.server.BaseHTTPRequestHandler.date_time_string", lambda *_: date)
    serve({WHOAMI: answers.refusal(400, "INVALID_INPUT", "start: is in the past")})
    err = run("whoami").err.replace("\u00a0", " ")
    assert (told in err) if told else ("clock" not in err)


def test_a_fault_of_ours_is_one_line_and_with_debug_says_where(
    run: Run, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise TypeError(f"no {TOKEN}_in_here")

    monkeypatch.setattr(views, "reservation", fail)
    serve({("GET", "/reservations/rsv_first"): answers.answer(answers.reservation("pending"))})
    plain = run("get", "rsv_first")
    assert plain.code == Exit.ERROR
    assert plain.err.startswith("Error: better-compute itself failed (TypeError: ")
    assert "Traceback" not in plain.err
    told = run("get", "rsv_first", "--debug")
    assert "Traceback" in told.err
    assert "test_errors.py" in told.err


def test_debug_says_each_request_and_no_secret(run: Run, serve: Serve) -> None:
    made = {
        "id": "tok_1", "tenantId": "ten_acme", "accountId": "usr_1", "username": "alice",
        "name": "ci", "createdAt": 0, "expiresAt": None, "lastUsedAt": None, "revokedAt": None,
        "token": "bct_1_fresh", "userAgent": "https://alice:hunter2@proxy.example",
    }  # fmt: skip
    serve({("POST", "/tokens"): answers.answer(made, 201), ("GET", "/pools"): wire_server.DROP})
    result = run("tokens", "create", "ci", "--debug")
    assert result.out == "bct_1_fresh\n"
    assert "> POST /api/v1/tokens\n" in result.err
    assert '"name":"ci"' in result.err.replace(" ", "")
    assert "< 201 in " in result.err
    assert "bct" not in result.err
    assert "hunter2" not in result.err
    assert "< nothing in " in run("pools", "--debug").err


@pytest.mark.parametrize("asked", [["--json"], ["--output", "json"], ["--output=json"]])
@pytest.mark.parametrize("command", [["list", "--bogus"], ["bogus"], ["pools", "--limit"]])
def test_a_mistake_is_a_document_wherever_json_was_asked_for(
    run: Run, command: list[str], asked: list[str]
) -> None:
    result = run(*command, *asked)
    assert (result.code, result.out) == (Exit.USAGE, "")
    assert json.loads(result.err)["error"]["code"] == "USAGE"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_the_shell_has_closed_is_no_error(serve: Serve, closed: str) -> None:
    items = [answers.reservation()]
    serve({("GET", "/reservations"): answers.answer({"items": items, "nextCursor": None})})
    done = subprocess.run(
        ["bash", "-c", f"'{sys.executable}' -m bettercompute.cli.main list {closed}"],
        cwd=ROOT,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    is_read = closed in {"<&-", "2>&-"}
    assert ("rsv_first" in done.stdout) == is_read


def test_a_reader_that_has_enough_is_no_error(serve: Serve) -> None:
    items = [answers.reservation(id=f"rsv_{number:04}") for number in range(150)]
    serve({("GET", "/reservations"): answers.answer({"items": items, "nextCursor": None})})
    command = f"'{sys.executable}' -m bettercompute.cli.main list --json | head -c 10; "
    done = subprocess.run(
        ["bash", "-c", command + 'code=${PIPESTATUS[0]}; echo; echo "$code"'],
        cwd=ROOT,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == "0"
