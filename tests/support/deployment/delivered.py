"""A sink that appends what it is told to a file, so that a test can see what was delivered."""

import errno
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from outbox.reader import EventRow


@dataclass(frozen=True, slots=True)
class Delivery:
    """One event, once: the same may be delivered several times."""

    id: str
    type: str
    subject: str
    position: tuple[int, int]
    pid: int


def path(data: Path) -> Path:
    """Where a deployment's deliveries are."""
    return data / "delivered.jsonl"


@dataclass(frozen=True, slots=True)
class FileSink:
    """Appends a batch by one write, so that lines of two processes never mix."""

    path: Path

    def deliver(self, events: Sequence[EventRow]) -> None:
        """Raises OSError where the disk takes none: the batch then comes again."""
        lines = [
            json.dumps([each.id, each.type, each.subject, list(each.position), os.getpid()])
            for each in events
        ]
        # A full disk tears what it takes: each batch begins a line of its own.
        batch = ("\n" + "".join(f"{line}\n" for line in lines)).encode()
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            if os.write(handle, batch) < len(batch):
                raise OSError(errno.ENOSPC, "the disk took a part of the batch")
        finally:
            os.close(handle)


def read(file: Path) -> Iterator[Delivery]:
    """Everything delivered so far, in order; what is half written, or was torn, is left out."""
    if not file.exists():
        return
    for line in file.read_text(encoding="utf-8").splitlines(keepends=True):
        if not line.endswith("\n"):
            continue
        with suppress(json.JSONDecodeError):
            event_id, type_, subject, position, pid = json.loads(line)
            yield Delivery(event_id, type_, subject, (position[0], position[1]), pid)
