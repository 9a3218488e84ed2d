"""Where an embedded deployment keeps its files."""

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from bettercompute.embedded import directories
from bettercompute.embedded.directories import Directories
from bettercompute.embedded.failures import CannotStart


class Usage(NamedTuple):
    total: int
    used: int
    free: int


def _free(mib: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(2**40, 0, mib * 2**20))


def test_a_data_directory_is_made_with_its_parents(tmp_path: Path) -> None:
    home = directories.make_home(tmp_path / "a" / "b")

    assert home.is_dir()
    assert (home / "logs").is_dir()


def test_a_data_directory_that_is_a_file_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(CannotStart, match=r"cannot be written: .* Set BETTERCOMPUTE_DATA") as error:
        directories.make_home(tmp_path / "file")
    assert "\n" not in str(error.value)


def test_a_full_disk_is_refused_with_what_is_free_and_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _free(12, monkeypatch)

    with pytest.raises(CannotStart, match="12 MiB are free and 300 are needed"):
        directories.require_space(tmp_path)


def test_a_later_start_needs_less_room_than_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _free(100, monkeypatch)
    (tmp_path / "pg").mkdir()

    directories.require_space(tmp_path)


def test_a_secret_is_made_once_and_is_its_owners_alone(tmp_path: Path) -> None:
    first = directories.secret(tmp_path, "secret-key")

    assert directories.secret(tmp_path, "secret-key") == first
    assert len(first) >= 50  # as production demands of Django's key
    assert (tmp_path / "secret-key").stat().st_mode & 0o777 == 0o600


def test_a_private_file_is_replaced_at_once(tmp_path: Path) -> None:
    directories.write_private(tmp_path / "demo.json", "old")
    with (tmp_path / "demo.json").open() as reader:
        directories.write_private(tmp_path / "demo.json", "new")

        assert reader.read() == "old"
    assert (tmp_path / "demo.json").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["demo.json"]


@pytest.mark.parametrize("depth", [1, 20])
def test_sockets_fit_into_an_address_however_deep_the_data_directory_lies(depth: int) -> None:
    home = Path("/", *["directory"] * depth)
    sockets = Directories(home=home, services=home, account=None).sockets

    assert len(str(sockets / ".s.PGSQL.5432.lock")) < 104


def test_long_data_directories_have_sockets_apart() -> None:
    homes = [Path("/", *["directory"] * 20, name) for name in ("a", "b")]
    sockets = {Directories(home=home, services=home, account=None).sockets for home in homes}

    assert len(sockets) == 2
