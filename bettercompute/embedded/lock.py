"""One supervisor per data directory.

The kernel's lock on an open file ends with the process that holds it, however that ends, so a stale
file from a killed run means nothing. The text in the file only tells a second start who is there.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bettercompute.embedded.failures import CannotStart


@contextmanager
def held(directory: Path, *, where: str) -> Iterator[None]:
    """Hold the directory's lock; `where` tells a second start how to find this one.

    Raises:
        CannotStart: another process holds it.
    """
    with (directory / "lock").open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            holder = file.read().strip() or "starting"
            raise CannotStart(
                f"Better Compute already runs on {directory} ({holder}): "
                "stop it first, or set BETTERCOMPUTE_DATA to another directory."
            ) from error
        file.truncate(0)
        file.write(f"pid {os.getpid()}, {where}\n")
        file.flush()
        yield
