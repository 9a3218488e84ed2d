"""Counts of processes that died stay counted, and their files do not pile up."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, multiprocess

from bettercompute.telemetry import files

_COUNTING = """
import prometheus_client as p, sys
p.Counter("runs", "r", ["kind"]).labels("node").inc(2)
p.Histogram("seconds", "s", ["kind"], buckets=(1, 2)).labels("node").observe(1.5)
p.Gauge("open", "o", ["kind"], multiprocess_mode="livesum").labels("node").set(7)
"""


def _count_in_a_process(where: Path, guarded_by: str = "") -> None:
    environment = {**os.environ, files.VARIABLE: str(where)}
    guard = f"from {guarded_by} import without_holes; without_holes()" if guarded_by else ""
    subprocess.run([sys.executable, "-c", guard + _COUNTING], env=environment, check=True)


def _read(where: Path) -> dict[str, float]:
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry, path=str(where))  # type: ignore[no-untyped-call]
    return {
        sample.name + sample.labels.get("le", ""): sample.value
        for family in registry.collect()
        for sample in family.samples
    }


def test_what_the_dead_counted_stays_and_their_gauges_go(tmp_path: Path) -> None:
    _count_in_a_process(tmp_path)
    _count_in_a_process(tmp_path)
    before = _read(tmp_path)
    assert (before["runs_total"], before["seconds_bucket2.0"], before["open"]) == (4, 2, 14)

    assert files.fold(tmp_path) == 2

    after = _read(tmp_path)
    assert "open" not in after
    assert after == {name: value for name, value in before.items() if name != "open"}
    assert sorted(path.name for path in tmp_path.glob("*.db")) == ["counter_0.db", "histogram_0.db"]

    _count_in_a_process(tmp_path)
    assert files.fold(tmp_path) == 1
    assert _read(tmp_path)["runs_total"] == 6
    assert files.fold(tmp_path) == 0


def test_what_lives_keeps_its_own_file(tmp_path: Path) -> None:
    _count_in_a_process(tmp_path)
    (counter,) = tmp_path.glob("counter_*.db")
    mine = counter.with_name(f"counter_{os.getpid()}.db")
    counter.rename(mine)
    files.fold(tmp_path)
    assert mine.exists()
    assert _read(tmp_path)["runs_total"] == 2


def test_without_a_directory_each_process_answers_for_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(files.VARIABLE, raising=False)
    files.prepare()  # the settings of tests want none
    assert files.directory() is None


@pytest.mark.rule("C1")
def test_a_file_has_all_of_its_bytes_before_it_is_written_through_its_map(tmp_path: Path) -> None:
    """A hole in it would kill the process that writes there while the disk is full."""
    _count_in_a_process(tmp_path, files.__name__)
    for path in tmp_path.glob("*.db"):
        assert path.stat().st_blocks * 512 >= path.stat().st_size == files.FILE_BYTES


def test_without_room_on_the_disk_a_process_counts_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "_allocate", full)
    assert files._room_for(str(tmp_path / "counter_1.db")).startswith("/proc/self/fd/")
    _count_in_a_process(tmp_path)
    before = _read(tmp_path)

    assert files.fold(tmp_path) == 0
    assert _read(tmp_path) == before
