"""Files that only their owner may read or change."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bettercompute.cli import private
from bettercompute.cli.private import Content, Unusable


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A private file in a directory of ours."""
    path = tmp_path / "ours" / "secret"
    private.write(path, "bct_1")
    return path


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277])
def test_only_its_owner_may_read_what_was_written(tmp_path: Path, umask: int) -> None:
    path = tmp_path / "ours" / "secret"
    before = os.umask(0)
    try:
        path.parent.mkdir(mode=0o777)
        os.umask(umask)
        private.write(path, "bct_1")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert private.read(path) == Content("bct_1", was_open=False)


def test_what_was_left_open_is_made_private_and_said_once(file: Path) -> None:
    file.chmod(0o644)
    assert private.read(file) == Content("bct_1", was_open=True)
    assert file.stat().st_mode & 0o777 == 0o600
    assert private.read(file) == Content("bct_1", was_open=False)


def test_a_directory_in_its_place_is_said_to_be_none(file: Path) -> None:
    file.unlink()
    file.mkdir()
    with pytest.raises(Unusable, match=r"ours/secret is no file\. Move it away\."):
        private.read(file)


def test_a_link_is_neither_read_nor_written_through(file: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("theirs")
    elsewhere.chmod(0o644)
    file.unlink()
    file.symlink_to(elsewhere)
    with pytest.raises(Unusable, match="link"):
        private.read(file)
    private.write(file, "bct_2")
    assert elsewhere.read_text() == "theirs"
    assert elsewhere.stat().st_mode & 0o777 == 0o644
    assert private.read(file) == Content("bct_2", was_open=False)


def test_a_directory_that_is_a_link_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "ours").symlink_to(tmp_path / "theirs")
    with pytest.raises(Unusable, match="link"):
        private.write(tmp_path / "ours" / "secret", "bct_1")
    assert list((tmp_path / "theirs").iterdir()) == []


def test_what_is_no_file_is_not_waited_for(file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)
    with pytest.raises(Unusable, match="no file"):
        private.read(file)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_somebody_elses_file_is_not_trusted(file: Path) -> None:
    os.chown(file, 12_345, -1)
    with pytest.raises(Unusable, match="another user"):
        private.read(file)


def test_no_text_is_said(file: Path) -> None:
    file.write_bytes(b"\xff")
    with pytest.raises(Unusable, match="no text"):
        private.read(file)


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        private.write(file, "bct_2")
    assert private.read(file) == Content("bct_1", was_open=False)
    assert list(file.parent.iterdir()) == [file]


def test_programs_that_change_the_same_do_so_one_at_a_time(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from bettercompute.cli import private\n"
        "with private.alone(Path(sys.argv[1])): print('in', flush=True)"
    )
    with private.alone(tmp_path / "ours"):
        other = subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path / "ours")],
            cwd=Path(__file__).parents[3],
            stdout=subprocess.PIPE,
            text=True,
        )
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(timeout=0.5)
    assert other.communicate(timeout=30)[0] == "in\n"
