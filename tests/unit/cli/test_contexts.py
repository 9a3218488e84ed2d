"""Contexts: where the server and the token come from."""

import json
import os
from pathlib import Path

import pytest

from bettercompute.cli import contexts, private, settings
from bettercompute.cli.contexts import Config, Context
from bettercompute.cli.exits import Exit
from bettercompute.cli.private import Unusable
from bettercompute.cli.settings import Given, NotSignedIn, Target
from tests.unit.cli.conftest import Run, Serve

A = Context("https://a.example", contexts.FILE, "ten_acme")
B = Context("https://b.example", "env:TOKEN_OF_B", "ten_globex", "json")


def seen(target: Target) -> tuple[str, str, str | None]:
    return target.url, target.token, target.tenant


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment with a home and nothing of ours."""
    return {"XDG_CONFIG_HOME": str(tmp_path)}


@pytest.fixture
def where(environ: dict[str, str]) -> Path:
    """Two contexts, of which a is in use; its token is in its file."""
    directory = contexts.directory(environ)
    contexts.change(directory, lambda _: Config("a", {"a": A, "b": B}))
    contexts.keep_secret(directory, "a", url=A.url, token="bct_a")
    return directory


def test_no_secret_is_in_the_configuration_and_all_is_private(where: Path) -> None:
    files = [file for file in where.rglob("*") if file.is_file()]
    assert {file.relative_to(where).as_posix() for file in files} == {
        "config.json",
        "tokens/a.json",
    }
    for file in files:
        assert file.stat().st_mode & 0o777 == 0o600
        assert file.parent.stat().st_mode & 0o777 == 0o700
    assert "bct_" not in contexts.config_file(where).read_text()


def test_what_was_configured_is_read(where: Path) -> None:
    assert contexts.load(where) == Config("a", {"a": A, "b": B})


@pytest.mark.usefixtures("where")
def test_the_environment_comes_before_the_context_and_a_flag_before_both(
    environ: dict[str, str],
) -> None:
    assert seen(settings.target(environ)) == ("https://a.example", "bct_a", "ten_acme")
    environ |= {"BETTER_COMPUTE_TENANT": "globex"}
    assert settings.target(environ).tenant == "globex"
    assert settings.target(environ, Given(tenant="initech")).tenant == "initech"
    environ |= {"BETTER_COMPUTE_TOKEN": "bct_env\n"}
    assert seen(settings.target(environ)) == ("https://a.example", "bct_env", "globex")
    environ |= {"BETTER_COMPUTE_URL": "https://c.example/"}
    assert settings.target(environ).url == "https://c.example"
    assert settings.target(environ, Given(url="https://d.example")).url == "https://d.example"


@pytest.mark.usefixtures("where")
def test_a_context_is_chosen_by_flag_before_variable_before_use(environ: dict[str, str]) -> None:
    environ |= {"TOKEN_OF_B": "bct_b", "BETTER_COMPUTE_CONTEXT": "b"}
    assert seen(settings.target(environ)) == ("https://b.example", "bct_b", "ten_globex")
    assert settings.target(environ, Given(context="a")).url == "https://a.example"


@pytest.mark.usefixtures("where")
def test_a_context_named_by_a_flag_is_meant_whole(environ: dict[str, str]) -> None:
    environ |= {
        "BETTER_COMPUTE_URL": "https://c.example",
        "BETTER_COMPUTE_TOKEN": "bct_env",
        "BETTER_COMPUTE_TENANT": "initech",
    }
    found = settings.target(environ, Given(context="a"))
    assert seen(found) == ("https://a.example", "bct_a", "ten_acme")


@pytest.mark.usefixtures("where")
def test_the_tenant_of_a_context_is_not_taken_to_another_token(environ: dict[str, str]) -> None:
    environ |= {"BETTER_COMPUTE_TOKEN": "bct_env"}
    assert settings.target(environ).tenant is None


@pytest.mark.usefixtures("where")
@pytest.mark.parametrize("how", ["flag", "variable"])
def test_a_kept_token_never_goes_to_another_server(environ: dict[str, str], how: str) -> None:
    url = "https://c.example"
    environ |= {} if how == "flag" else {"BETTER_COMPUTE_URL": url}
    with pytest.raises(NotSignedIn, match=r"signed in at https://a\.example") as raised:
        settings.target(environ, Given(url=url if how == "flag" else None))
    assert "bct_a" not in str(raised.value)


def test_nor_does_it_where_the_configuration_was_changed_by_hand(
    environ: dict[str, str], where: Path
) -> None:
    moved = contexts.config_file(where).read_text().replace("a.example", "evil.example")
    contexts.config_file(where).write_text(moved)
    with pytest.raises(Unusable, match=r"saved for https://a\.example, and is not sent"):
        settings.target(environ)


@pytest.mark.usefixtures("where")
@pytest.mark.parametrize(
    ("given", "told"),
    [
        (Given(context="c"), "There is no context c; there are: a, b"),
        (Given(context="b"), "TOKEN_OF_B, which is not set"),
    ],
)
def test_what_is_missing_is_said(environ: dict[str, str], given: Given, told: str) -> None:
    with pytest.raises(NotSignedIn, match=told):
        settings.target(environ, given)


def test_a_context_without_its_token_says_how_to_sign_in(
    environ: dict[str, str], where: Path
) -> None:
    contexts.forget_secret(where, "a")
    with pytest.raises(NotSignedIn, match="better-compute login --context a"):
        settings.target(environ)


def test_nothing_known_says_how_to_sign_in(environ: dict[str, str]) -> None:
    with pytest.raises(NotSignedIn, match="better-compute login"):
        settings.target(environ)


BROKEN = [
    "",
    "{",
    "[]",
    '{"version": 1}',
    '{"version": 1, "contexts": {"a": {}}}',
    '{"version": 1, "contexts": {"a": {"url": 1}}}',
    '{"version": 1, "contexts": {"a": {"url": "x", "token": "bct_in_here"}}}',
    '{"version": 1, "contexts": {"../a": {"url": "x"}}}',
    '{"version": 2, "contexts": {}}',
    "\x00",
    "[" * 100_000,
]


@pytest.mark.parametrize("content", BROKEN)
def test_a_broken_configuration_is_named_with_what_to_do(
    environ: dict[str, str], where: Path, content: str
) -> None:
    contexts.config_file(where).write_text(content)
    with pytest.raises(Unusable, match=r"config\.json is") as raised:
        settings.target(environ)
    assert "bct_in_here" not in str(raised.value)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"url": "https://a.example"}', "[" * 100_000])
def test_so_is_a_broken_token(environ: dict[str, str], where: Path, content: str) -> None:
    contexts.token_file(where, "a").write_text(content)
    with pytest.raises(Unusable, match="broken"):
        settings.target(environ)


def test_a_broken_configuration_does_not_matter_where_it_is_not_needed(
    environ: dict[str, str], where: Path
) -> None:
    contexts.config_file(where).write_text("{")
    environ |= {"BETTER_COMPUTE_URL": "https://b.example", "BETTER_COMPUTE_TOKEN": "bct_env"}
    assert settings.target(environ).token == "bct_env"


def test_a_relative_config_home_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    found = contexts.directory({"XDG_CONFIG_HOME": "here"})
    assert found.is_relative_to(tmp_path / ".config")


def test_the_token_is_not_in_what_is_printed_for_debugging(where: Path) -> None:
    assert "bct" not in repr(contexts.secret(where, "a", A))
    assert "bct" not in repr(Target("https://a.example", "bct_x", None))
    assert "bct" not in repr(private.read(contexts.token_file(where, "a")))


class TestAnEarlierRelease:
    """Its one file had address, tenant and token."""

    @pytest.fixture
    def file(self, environ: dict[str, str]) -> Path:
        path = contexts.directory(environ) / "settings.json"
        path.parent.mkdir(mode=0o700)
        stored = {"url": "https://a.example", "token": "bct_old", "tenant": "ten_acme"}
        path.write_text(json.dumps(stored))
        return path

    def test_it_becomes_the_first_context_and_is_gone(
        self, environ: dict[str, str], file: Path
    ) -> None:
        expected = ("https://a.example", "bct_old", "ten_acme")
        assert seen(settings.target(environ)) == expected
        assert not file.exists()
        assert list(contexts.load(file.parent).contexts) == ["default"]
        assert seen(settings.target(environ)) == expected

    def test_a_crash_between_keeps_it(
        self, environ: dict[str, str], file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def crash(*_: object) -> None:
            raise OSError("gone")

        with monkeypatch.context() as broken:
            broken.setattr(contexts, "_write", crash)
            with pytest.raises(OSError, match="gone"):
                settings.target(environ)
        assert settings.target(environ).token == "bct_old"

    def test_a_broken_one_is_named(self, environ: dict[str, str], file: Path) -> None:
        file.write_text("{")
        with pytest.raises(Unusable, match=r"settings\.json is broken"):
            settings.target(environ)


class TestCommands:
    """`better-compute context`"""

    @pytest.fixture(autouse=True)
    def _configured(self, home: Path) -> None:
        where = contexts.directory(os.environ)
        contexts.change(where, lambda _: Config("a", {"a": A, "b": B}))
        contexts.keep_secret(where, "a", url=A.url, token="bct_a")

    def test_they_are_listed_with_the_one_in_use(self, run: Run) -> None:
        assert run("context").out.splitlines() == [
            "   NAME  SERVER             TENANT      TOKEN          PRINTS",
            "*  a     https://a.example  ten_acme    kept",
            "   b     https://b.example  ten_globex  in TOKEN_OF_B  json",
        ]

    def test_another_is_used_from_then_on(self, run: Run) -> None:
        assert run("context", "use", "b").out == "b  https://b.example, in use\n"
        assert contexts.load(contexts.directory(os.environ)).current == "b"
        refused = run("context", "use", "c")
        assert refused.code == Exit.USAGE
        assert "There is no context c; there are: a, b." in refused.err

    def test_one_is_added_changed_and_removed_with_its_token(self, run: Run) -> None:
        where = contexts.directory(os.environ)
        added = run("context", "add", "c", "--url", "https://c.example/", "--tenant", "acme")
        assert added.code == 0
        assert added.out == "c  https://c.example\n"
        assert "better-compute login --context c" in added.err
        assert run("context", "add", "c", "--url", "https://c.example").code == Exit.USAGE
        changed = run("context", "set", "c", "--token-variable", "TOKEN_OF_C", "--prints", "id")
        assert changed.code == 0
        assert contexts.load(where).contexts["c"] == Context(
            "https://c.example", "env:TOKEN_OF_C", "acme", "id"
        )
        assert run("context", "remove", "a").code == 0
        assert not contexts.token_file(where, "a").exists()
        assert contexts.load(where).current is None
        assert "better-compute context use NAME" in run("list").err

    @pytest.mark.parametrize("name", ["../a", ".a", "", "a/b", "a" * 64])
    def test_a_name_that_is_no_file_name_is_refused(self, run: Run, name: str) -> None:
        assert run("context", "add", name, "--url", "https://c.example").code == Exit.USAGE

    def test_a_token_that_others_could_read_is_warned_about_once(
        self, run: Run, serve: Serve, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        server = serve({})
        for name in ("URL", "TOKEN", "TENANT"):
            monkeypatch.delenv(f"BETTER_COMPUTE_{name}")
        where = contexts.directory(os.environ)
        here = Context(server.url, contexts.FILE, "ten_acme")
        contexts.change(where, lambda _: Config("here", {"here": here}))
        contexts.keep_secret(where, "here", url=server.url, token="bct_here")
        contexts.token_file(where, "here").chmod(0o640)
        assert "Others could read your token" in run("get", "rsv_first").err
        assert "Others could read your token" not in run("get", "rsv_first").err
        assert server.received[-1].headers["authorization"] == "Bearer bct_here"

    def test_what_a_context_prefers_to_print_a_flag_overrides(
        self, run: Run, serve: Serve, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run("context", "use", "b")
        assert json.loads(run("context").out)["items"]
        assert run("context", "--output", "id").out == "a\nb\n"
