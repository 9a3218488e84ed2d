"""Which processes of this host are dead, so that nobody waits for their leases to lapse (C34).

Each worker holds a lock on a file that is named after its owner id. The kernel lets the lock go
when the process ends, however it ends. So whoever gets the lock knows that its holder is dead, and
ends what it held: a worker that was killed is followed by the next one on its host at once, where
other hosts wait for the lapse.

Nobody matches an earlier self by this (C32): the terms end, and the next are taken as any other,
with a higher epoch. Were a lock ever let go while its holder lives (a network's file system), the
fence still refuses what that one writes (C30).
"""

import contextlib
import fcntl
import hashlib
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings
from django.db import connection

from bettercompute.coordination import heartbeats, leases, owner

log = logging.getLogger(__name__)

_changing = threading.Lock()
_locks: dict[str, int] = {}  # owner id → descriptor; one a process, but for tests


def announce() -> None:
    """Hold the lock that says that this process lives; does so once."""
    directory: Path | None = settings.PRESENCE_DIRECTORY
    with _changing:
        if directory is None or owner.OWNER in _locks:
            return
        _locks[owner.OWNER] = -1
        try:
            directory.mkdir(parents=True, exist_ok=True)
            _locks[owner.OWNER] = _lock_new(directory / f"{_of_database()}{owner.OWNER}")
        except OSError as error:
            log.info("no locks in %s (%s): leases of the dead lapse by time", directory, error)


def free_what_the_dead_held() -> None:
    """End what dead processes of this host held."""
    announce()
    for path in _others():
        with _locked_if_free(path) as free:
            if not free:
                continue
            process = path.name.removeprefix(_of_database())
            heartbeats.stop(process)
            if leases.end_terms_of(process):
                path.unlink(missing_ok=True)
                log.info("%s of this host is dead; its leases are free", process)


def leave() -> None:
    """A clean stop: there is nothing left to free."""
    with _changing:
        descriptor = _locks.pop(owner.OWNER, -1)
        directory: Path | None = settings.PRESENCE_DIRECTORY
        if directory is not None and descriptor >= 0:
            (directory / f"{_of_database()}{owner.OWNER}").unlink(missing_ok=True)
            os.close(descriptor)


def _others() -> list[Path]:
    directory: Path | None = settings.PRESENCE_DIRECTORY
    if directory is None:
        return []
    found = sorted(directory.glob(f"{_of_database()}*"))
    return [path for path in found if path.name.removeprefix(_of_database()) not in _locks]


def _of_database() -> str:
    """What the names of our files begin with: processes of another database are not our matter."""
    known = connection.settings_dict
    which = f"{known['HOST']} {known['PORT']} {known['NAME']}"
    return f"{hashlib.sha256(which.encode()).hexdigest()[:12]}-"


def _lock_new(path: Path) -> int:
    """A locked file under this name, which nobody ever sees without its lock."""
    unfinished = path.with_name(f".{path.name}")
    descriptor = os.open(unfinished, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        unfinished.rename(path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


@contextlib.contextmanager
def _locked_if_free(path: Path) -> Iterator[bool]:
    """Hold the lock of a process that is dead; False where it lives, or another is at it."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:  # freed meanwhile, or another user's
        yield False
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        free = True
    except OSError:
        free = False
    try:
        yield free
    finally:
        os.close(descriptor)
