"""`better-compute login`"""

import io
import json
import os
import stat
from pathlib import Path

import pytest

from bettercompute.cli import contexts, settings
from bettercompute.cli.contexts import Config, Context
from bettercompute.cli.exits import Exit
from tests.support import answers
from tests.support.wire_server import WireServer
from tests.unit.cli.conftest import TOKEN, Run, Serve

WHOAMI = ("GET", "/whoami")


class Terminal(io.StringIO):
    """Input that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def server(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> WireServer:
    """A server where the token is good; nobody is signed in yet."""
    running = serve({WHOAMI: answers.answer(answers.whoami())})
    for name in (settings.URL_VARIABLE, settings.TOKEN_VARIABLE, settings.TENANT_VARIABLE):
        monkeypatch.delenv(name)
    return running


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """The token comes in on standard input."""
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{TOKEN}\n"))


def stored() -> tuple[str, str, str | None] | None:
    """Address, token and tenant of the context in use."""
    try:
        found = settings.target(os.environ)
    except settings.NotSignedIn:
        return None
    return found.url, found.token, found.tenant


@pytest.mark.usefixtures("pipe")
def test_a_good_token_is_kept_where_only_its_owner_reads_it(run: Run, server: WireServer) -> None:
    result = run("login", "--url", server.url + "/", "--token-stdin")
    assert result.code == 0
    assert stored() == (server.url, TOKEN, "ten_acme")
    file = contexts.token_file(contexts.directory(os.environ), "default")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert result.out == (
        f"Signed in at {server.url} as alice.\n"
        f"  Tenant   Acme (admin)\n  Context  default\n  Kept in  {file}\n"
    )
    assert TOKEN not in result.out + result.err


@pytest.mark.usefixtures("pipe")
def test_once_signed_in_commands_need_no_more(run: Run, server: WireServer) -> None:
    run("login", "--url", server.url, "--token-stdin")
    run("get", "rsv_first", "--json")
    assert server.received[-1].headers["authorization"] == f"Bearer {TOKEN}"
    assert server.received[-1].path == "/api/v1/reservations/rsv_first?tenantId=ten_acme"


def test_at_a_terminal_it_asks_and_does_not_show_the_token(
    run: Run, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal())
    asked: list[tuple[str, bool]] = []

    def prompt(text: str, **options: object) -> str:
        asked.append((text, bool(options.get("hide_input"))))
        assert options["err"] is True
        return server.url if "Address" in text else f" {TOKEN} "

    monkeypatch.setattr("bettercompute.cli.login.click.prompt", prompt)
    assert run("login").code == 0
    assert asked == [("Address of the server", False), ("API token", True)]
    assert stored() == (server.url, TOKEN, "ten_acme")


def test_without_a_terminal_it_says_how_to_give_the_token(
    run: Run, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    result = run("login", "--url", server.url)
    assert result.code == Exit.USAGE
    assert "--token-stdin" in result.err
    assert stored() is None


@pytest.mark.usefixtures("pipe")
def test_a_bad_token_is_not_kept(run: Run, server: WireServer) -> None:
    server.answer = lambda _: answers.refusal(401, "UNAUTHENTICATED", "unknown token")
    result = run("login", "--url", server.url, "--token-stdin")
    assert result.code == Exit.NOT_AUTHENTICATED
    assert "unknown token" in result.err
    assert stored() is None


@pytest.mark.usefixtures("pipe")
def test_a_failed_login_leaves_the_earlier_one(run: Run, server: WireServer, home: Path) -> None:
    where = contexts.directory(os.environ)
    before = Context("https://a.example", contexts.FILE, "ten_acme")
    contexts.change(where, lambda _: Config("a", {"a": before}))
    contexts.keep_secret(where, "a", url="https://a.example", token="bct_earlier")
    server.answer = lambda _: answers.refusal(401, "UNAUTHENTICATED")
    assert run("login", "--url", server.url, "--token-stdin").code == Exit.NOT_AUTHENTICATED
    assert stored() == ("https://a.example", "bct_earlier", "ten_acme")


@pytest.mark.usefixtures("pipe")
def test_of_several_tenants_one_is_named(run: Run, server: WireServer) -> None:
    server.answer = lambda _: answers.answer(answers.whoami("acme", "globex"))
    refused = run("login", "--url", server.url, "--token-stdin")
    assert refused.code == Exit.USAGE
    assert "acme, globex" in refused.err


@pytest.mark.usefixtures("pipe")
def test_the_tenant_that_is_named_is_kept(run: Run, server: WireServer) -> None:
    server.answer = lambda _: answers.answer(answers.whoami("acme", "globex"))
    result = run("login", "--url", server.url, "--token-stdin", "--tenant", "globex", "--json")
    assert json.loads(result.out)["tenantId"] == "ten_globex"
    found = stored()
    assert found is not None
    assert found[2] == "ten_globex"


def test_another_server_is_another_context_and_the_same_is_the_same(
    run: Run, server: WireServer, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sign_in(*more: str) -> str:
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{TOKEN}\n"))
        done = run("login", "--token-stdin", "--json", *more)
        return str(json.loads(done.out)["context"])

    assert sign_in("--url", server.url) == "default"
    other = serve({WHOAMI: answers.answer(answers.whoami("globex"))})
    monkeypatch.delenv(settings.URL_VARIABLE)
    monkeypatch.delenv(settings.TOKEN_VARIABLE)
    monkeypatch.delenv(settings.TENANT_VARIABLE)
    port = other.url.rpartition(":")[2]
    assert sign_in("--url", other.url) == f"127.0.0.1-{port}"
    assert stored() == (other.url, TOKEN, "ten_globex")
    assert sign_in("--url", server.url) == "default"
    assert sign_in("--url", server.url, "--context", "mine") == "mine"
    assert json.loads(run("context", "--json").out)["items"][-1]["current"] is True


@pytest.mark.parametrize(
    ("url", "warned"),
    [
        ("http://compute.example.invalid", True),
        ("http://localhost:9", False),
        ("http://[::1]:9", False),
        ("https://compute.example.invalid", False),
    ],
)
def test_a_token_that_would_go_unencrypted_is_warned_about(url: str, warned: bool) -> None:
    from bettercompute.cli.login import is_protected

    assert is_protected(url) is not warned


@pytest.mark.usefixtures("pipe")
@pytest.mark.parametrize("url", ["compute.example.org", "ftp://compute.example.org"])
def test_what_is_no_address_is_usage(run: Run, url: str) -> None:
    result = run("login", "--url", url, "--token-stdin")
    assert result.code == Exit.USAGE
    assert url in result.err
