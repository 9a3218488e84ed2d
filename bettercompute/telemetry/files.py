"""Where processes of one host keep what they count, so that any of them can answer for all.

Each process writes its counters into mapped files of its own, named after its process id
(prometheus-client's multiprocess mode); whoever is asked adds them up. What a dead process counted
must stay counted, or every restart would look like a counter that fell: its files are folded into
one, that of process 0.

A mapped file with a hole is a trap: whoever writes there while the disk is full is killed (SIGBUS).
So files have all of their bytes before they are mapped, and counts that find no room for theirs
are kept in memory.
"""

import contextlib
import fcntl
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from django.conf import settings

log = logging.getLogger(__name__)

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
FILE_BYTES = 1 << 20  # some thousand series; what a process counts does not grow beyond
_LOCK = "lock"
_FOLDED = ("counter", "histogram")


def prepare() -> None:
    """Choose the directory; before prometheus-client is imported, which looks for it then."""
    wanted: Path | None = settings.METRICS_DIRECTORY
    if VARIABLE in os.environ or wanted is None:
        return
    try:
        wanted.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        log.warning("no metrics in %s (%s): each process answers for itself", wanted, error)
    else:
        os.environ[VARIABLE] = str(wanted)


def without_holes() -> None:
    """Let prometheus-client map files only that have all of their bytes."""
    from prometheus_client import mmap_dict, values

    mapped: Any = mmap_dict.MmapedDict  # untyped

    class Whole(mapped):  # type: ignore[misc]
        def __init__(self, filename: str, read_mode: bool = False) -> None:
            super().__init__(filename if read_mode else _room_for(filename), read_mode)

    names: Any = values  # untyped
    names.MmapedDict = Whole


def _room_for(filename: str) -> str:
    """The file, with its bytes; one in memory where the disk has none to give."""
    try:
        _allocate(Path(filename))
    except OSError as error:
        log.warning("no room for %s (%s): this process counts in memory", filename, error)
        Path(filename).unlink(missing_ok=True)
        return f"/proc/self/fd/{os.memfd_create('metrics')}"
    return filename


def _allocate(path: Path) -> None:
    """Raises: OSError, where the disk is full."""
    if not hasattr(os, "posix_fallocate"):
        return  # nor has that system a way to count in memory
    with path.open("ab") as file:
        if file.tell() < FILE_BYTES:
            os.posix_fallocate(file.fileno(), 0, FILE_BYTES)


def directory() -> Path | None:
    """The directory; None where each process answers for itself."""
    chosen = os.environ.get(VARIABLE)
    return None if chosen is None else Path(chosen)


@contextlib.contextmanager
def locked(where: Path, *, exclusive: bool = False) -> Iterator[None]:
    """While the directory's files are read, nobody folds them; they are written all the time."""
    with (where / _LOCK).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
        yield


def fold(where: Path) -> int:
    """Add what dead processes counted to one file, and forget their gauges; answers their number.

    A crash in the middle may count something twice; nothing is lost. On a full disk they wait.
    """
    with locked(where, exclusive=True):
        dead = {path: _pid(path) for path in where.glob("*.db") if not _lives(_pid(path))}
        try:
            for kind in _FOLDED:
                of_kind = [path for path in dead if path.name.startswith(f"{kind}_")]
                _fold_into(where / f"{kind}_0.db", of_kind)
        except OSError as error:  # they are read as they are, as long as the disk is full
            log.warning("what dead processes counted is not added up: %s", error)
            return 0
        for path in dead:
            path.unlink(missing_ok=True)
    return len(set(dead.values()))


def _fold_into(target: Path, sources: Sequence[Path]) -> None:
    from prometheus_client import mmap_dict

    if not sources:
        return
    mapped: Any = mmap_dict.MmapedDict  # untyped
    sums: dict[str, float] = {}
    for source in (target, *sources):
        if source.exists() and source.stat().st_size:
            for key, value, *_ in mapped.read_all_values_from_file(str(source)):
                sums[key] = sums.get(key, 0.0) + value
    unfinished = target.with_suffix(".new")
    unfinished.unlink(missing_ok=True)
    _allocate(unfinished)
    folded = mapped(str(unfinished))
    for key, value in sums.items():
        folded.write_value(key, value, 0.0)
    folded.close()
    unfinished.replace(target)


def _pid(path: Path) -> int:
    """Of ``histogram_4711.db``, ``gauge_livesum_4711.db``."""
    return int(path.stem.rpartition("_")[2])


def _lives(pid: int) -> bool:
    """Whether such a process runs; 0 is where the dead are folded into."""
    if pid == 0:
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        return True
    return True
