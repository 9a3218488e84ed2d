"""Where the server and the token come from."""

import json
import os
from pathlib import Path

import pytest

from bettercompute.cli import settings
from bettercompute.cli.settings import NotSignedIn, Stored, Target, UnreadableFile

STORED = Stored(url="https://a.example", token="bct_stored", tenant="ten_acme")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment with a home and nothing of ours."""
    return {"XDG_CONFIG_HOME": str(tmp_path)}


@pytest.fixture
def file(environ: dict[str, str]) -> Path:
    """The settings file, written."""
    path = settings.path(environ)
    settings.write(path, STORED)
    return path


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_only_its_owner_may_read_the_file(environ: dict[str, str], umask: int) -> None:
    path = settings.path(environ)
    before = os.umask(umask)
    try:
        settings.write(path, STORED)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o077 == 0
    assert settings.is_private(path)


def test_a_file_that_others_could_read_is_made_private_when_written_again(file: Path) -> None:
    file.chmod(0o644)
    assert not settings.is_private(file)
    settings.write(file, STORED)
    assert file.stat().st_mode & 0o777 == 0o600


def test_what_was_written_is_read_and_nothing_else_is_left(file: Path) -> None:
    assert settings.read(file) == STORED
    assert [path.name for path in file.parent.iterdir()] == ["settings.json"]


def test_a_write_that_fails_leaves_the_old_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(json, "dump", fail)
    with pytest.raises(OSError, match="No space"):
        settings.write(file, Stored("https://b.example", "bct_other"))
    assert settings.read(file) == STORED
    assert [path.name for path in file.parent.iterdir()] == ["settings.json"]


def test_the_environment_comes_before_the_file_and_a_flag_before_both(
    environ: dict[str, str], file: Path
) -> None:
    assert settings.target(environ) == Target("https://a.example", "bct_stored", "ten_acme")
    environ |= {"BETTER_COMPUTE_TENANT": "globex"}
    assert settings.target(environ).tenant == "globex"
    assert settings.target(environ, tenant="initech").tenant == "initech"
    environ |= {"BETTER_COMPUTE_TOKEN": "bct_env\n"}
    assert settings.target(environ) == Target("https://a.example", "bct_env", "globex")
    environ |= {"BETTER_COMPUTE_URL": "https://b.example/"}
    assert settings.target(environ).url == "https://b.example"
    assert settings.target(environ, url="https://c.example").url == "https://c.example"


def test_the_stored_tenant_is_not_taken_to_another_token(
    environ: dict[str, str], file: Path
) -> None:
    environ |= {"BETTER_COMPUTE_TOKEN": "bct_env"}
    assert settings.target(environ).tenant is None


@pytest.mark.parametrize("how", ["flag", "variable"])
def test_a_stored_token_never_goes_to_another_server(
    environ: dict[str, str], file: Path, how: str
) -> None:
    url = "https://b.example"
    flag = url if how == "flag" else None
    environ |= {} if how == "flag" else {"BETTER_COMPUTE_URL": url}
    with pytest.raises(NotSignedIn, match=r"signed in at https://a\.example") as raised:
        settings.target(environ, url=flag)
    assert "bct_stored" not in str(raised.value)


def test_nothing_known_says_how_to_sign_in(environ: dict[str, str]) -> None:
    with pytest.raises(NotSignedIn, match="better-compute login"):
        settings.target(environ)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"url": "https://a.example"}', "\x00"])
def test_a_broken_file_is_named_with_what_to_do(
    environ: dict[str, str], file: Path, content: str
) -> None:
    file.write_text(content)
    with pytest.raises(UnreadableFile, match="Remove it"):
        settings.target(environ)


def test_a_broken_file_does_not_matter_where_it_is_not_needed(
    environ: dict[str, str], file: Path
) -> None:
    file.write_text("{")
    environ |= {"BETTER_COMPUTE_URL": "https://b.example", "BETTER_COMPUTE_TOKEN": "bct_env"}
    assert settings.target(environ).token == "bct_env"


def test_a_relative_config_home_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert settings.path({"XDG_CONFIG_HOME": "here"}).is_relative_to(tmp_path / ".config")


def test_the_token_is_not_in_what_is_printed_for_debugging() -> None:
    assert "bct" not in repr(STORED)
    assert "bct" not in repr(Target("https://a.example", "bct_x", None))
