"""One supervisor per data directory."""

import os
from pathlib import Path

import pytest

from bettercompute.embedded import lock
from bettercompute.embedded.failures import CannotStart


def test_a_second_holder_is_told_who_is_there_and_what_to_do(tmp_path: Path) -> None:
    with lock.held(tmp_path, where="port 8000"):
        with pytest.raises(CannotStart) as refusal, lock.held(tmp_path, where="port 9000"):
            pytest.fail("two held one lock")

        assert f"already runs on {tmp_path} (pid {os.getpid()}, port 8000)" in str(refusal.value)
        assert "BETTERCOMPUTE_DATA" in str(refusal.value)


def test_the_lock_is_free_after_its_holder(tmp_path: Path) -> None:
    for _ in range(2):
        with lock.held(tmp_path, where="port 8000"):
            pass


def test_what_a_killed_run_left_in_the_file_means_nothing(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text(f"pid {os.getpid()}, port 8000, and a much longer line\n")

    with lock.held(tmp_path, where="port 1"):
        assert (tmp_path / "lock").read_text() == f"pid {os.getpid()}, port 1\n"
