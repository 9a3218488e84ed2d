"""What an agent has to say, in order, until a gateway has it (N7, N8).

A report is journaled before it is sent and dropped once it is acknowledged, so neither a crash nor
a silent gateway loses one; sending one twice is recognised by its sequence number (C28).
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TextIO

from nodes.protocol import messages
from nodes.protocol.messages import ReportEntry

BATCH_CHARS_MAX = messages.REPORTS_BYTES_MAX // 2

Write = Callable[[int], ReportEntry]


class Journal(Protocol):
    """Entries that are not acknowledged yet."""

    def append(self, write: Write) -> None:
        """Add the entry that ``write`` makes for the next sequence number."""

    def pending(self) -> list[ReportEntry]:
        """The oldest entries, as many as one call may carry."""

    def acknowledge(self, seq: int) -> None:
        """Everything up to ``seq`` has arrived."""

    def resume(self, applied_seq: int) -> bool:
        """Go on behind what the control plane has; False where it has what is not ours.

        That is so when this journal was lost: what was in it may never have arrived.
        """

    def close(self) -> None:
        """Let go of what it is written to."""


class MemoryJournal:
    """A journal that dies with the process."""

    def __init__(self) -> None:
        self._entries: list[ReportEntry] = []
        self._next = 1

    def append(self, write: Write) -> None:
        self._entries.append(write(self._next))
        self._next += 1

    def pending(self) -> list[ReportEntry]:
        """The oldest entries that fit in one call."""
        return batch(self._entries)

    def acknowledge(self, seq: int) -> None:
        """Forget what has arrived."""
        self._entries = [entry for entry in self._entries if entry.seq > seq]

    def resume(self, applied_seq: int) -> bool:
        """Never reuse a number that the control plane has seen."""
        ours = applied_seq < self._next
        self._next = max(self._next, applied_seq + 1)
        self.acknowledge(applied_seq)
        return ours

    def close(self) -> None:
        """Nothing to let go of."""


class FileJournal(MemoryJournal):
    """A journal in one file: a line an entry, forced to disk before it is sent.

    The first line says which sequence number comes next, so numbers survive an emptied file. A
    torn last line is an entry that was never sent: it is dropped.
    """

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        super().__init__()
        self._path = path
        self._durable = durable
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._load()
        self._file = self._rewritten()

    def append(self, write: Write) -> None:
        """Add an entry and force it to disk."""
        super().append(write)
        self._file.write(_line(self._entries[-1]))
        self._force(self._file)

    def acknowledge(self, seq: int) -> None:
        """Forget what has arrived; the file shrinks once nothing is left in it."""
        before = len(self._entries)
        super().acknowledge(seq)
        # Rewriting at every acknowledgement would cost more than a replay, which is harmless.
        if before and not self._entries:
            self._rewrite()

    def resume(self, applied_seq: int) -> bool:
        """Never reuse a number that the control plane has seen."""
        ours = super().resume(applied_seq)
        self._rewrite()
        return ours

    def close(self) -> None:
        self._file.close()

    def _load(self) -> None:
        try:
            lines = self._path.read_text(encoding="utf-8").split("\n")
        except FileNotFoundError:
            return
        whole = lines[:-1]  # what follows the last newline is torn
        try:
            self._next = max(1, int(json.loads(whole[0])["next"])) if whole else 1
            for line in whole[1:]:
                entry = ReportEntry.from_json(line)
                self._entries.append(entry)
                self._next = max(self._next, entry.seq + 1)
        except (ValueError, KeyError, TypeError):
            # A damaged disk: what was read so far is kept, the rest cannot be trusted.
            return

    def _rewrite(self) -> None:
        self._file.close()
        self._file = self._rewritten()

    def _rewritten(self) -> TextIO:
        """The file written anew, whole or not at all, and open for more lines."""
        fresh = self._path.with_suffix(".new")
        file = fresh.open("w", encoding="utf-8")
        fresh.chmod(0o600)
        file.write(json.dumps({"next": self._next}) + "\n")
        file.writelines(_line(entry) for entry in self._entries)
        self._force(file)
        fresh.replace(self._path)
        return file

    def _force(self, file: TextIO) -> None:
        file.flush()
        if self._durable:
            os.fsync(file.fileno())


def batch(entries: list[ReportEntry]) -> list[ReportEntry]:
    """The first entries that fit in one call, at least one."""
    chosen: list[ReportEntry] = []
    characters = 0
    for entry in entries[: messages.ENTRIES_PER_CALL_MAX]:
        characters += len(entry.body)
        if chosen and characters > BATCH_CHARS_MAX:
            break
        chosen.append(entry)
    return chosen


def _line(entry: ReportEntry) -> str:
    return messages.canonical(entry.to_wire()) + "\n"
