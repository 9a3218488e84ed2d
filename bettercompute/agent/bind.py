"""Holding devices (N12): two files a hold, written so that no crash leaves half a hold.

The env file comes first and the spec last when binding, the spec goes first when letting go: the
spec is the hold itself, so whatever instant a crash strikes, there either is a whole hold or none.
"""

import contextlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from bettercompute.agent import cdi
from bettercompute.agent.atoms import Atom
from bettercompute.agent.cdi import Bound
from nodes.protocol.messages import Assignment

FILE_MODE = 0o644  # runtimes and workloads of any user read them; there is no secret inside


class BindFailed(Exception):
    """The devices could not be held; the message says why."""


class Holds(Protocol):
    """Where holds are kept."""

    def read(self) -> Mapping[str, Assignment]:
        """Every hold there is now, by allocation."""

    async def bind(self, assignment: Assignment, atoms: Sequence[Atom]) -> Bound:
        """Hold, or write the hold again. Raises: BindFailed."""

    async def unbind(self, allocation_id: str) -> None:
        """Let go; a hold that is already gone is fine."""


class DiskHolds:
    """Holds as files under ``root``: ``/`` on a host, a directory elsewhere (N16)."""

    def __init__(self, root: Path, *, durable: bool = True) -> None:
        self._root = root
        self._durable = durable  # the simulator saves itself the fsync

    def read(self) -> Mapping[str, Assignment]:
        """Every hold whose spec is there and whole; other vendors' specs are none of ours."""
        directory = self._root / cdi.SPEC_DIRECTORY
        holds: dict[str, Assignment] = {}
        for path in sorted(directory.glob("bcd-*.json")):
            allocation_id = cdi.allocation_of(path.name)
            assignment = cdi.assignment_of(_text(path))
            if assignment is not None and assignment.allocation_id == allocation_id:
                holds[allocation_id] = assignment
        return holds

    async def bind(self, assignment: Assignment, atoms: Sequence[Atom]) -> Bound:
        """Write the env file, then the spec, each whole or not at all."""
        spec = json.dumps(cdi.spec(assignment, atoms), indent=2) + "\n"
        try:
            self._write(cdi.env_path(assignment.allocation_id), cdi.env_text(assignment, atoms))
            self._write(cdi.spec_path(assignment.allocation_id), spec)
        except OSError as error:
            raise BindFailed(f"{error.filename or 'a file'}: {error.strerror}") from error
        return cdi.bound(assignment)

    async def unbind(self, allocation_id: str) -> None:
        """Remove the spec, then the env file."""
        for path in (cdi.spec_path(allocation_id), cdi.env_path(allocation_id)):
            (self._root / path).unlink(missing_ok=True)
            self._sync((self._root / path).parent)

    def _write(self, relative: str, text: str) -> None:
        path = self._root / relative
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        # A leading dot keeps half-written files out of every loader's sight.
        handle, name = tempfile.mkstemp(prefix=".bcd-", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fchmod(file.fileno(), FILE_MODE)
                if self._durable:
                    os.fsync(file.fileno())
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        self._sync(path.parent)

    def _sync(self, directory: Path) -> None:
        """Make a rename or removal survive a power cut."""
        if not self._durable:
            return
        with contextlib.suppress(FileNotFoundError):
            handle = os.open(directory, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


class MemoryHolds:
    """Holds that die with the process: for simulated fleets and tests."""

    def __init__(self) -> None:
        self._holds: dict[str, Assignment] = {}

    def read(self) -> Mapping[str, Assignment]:
        """Every hold there is now."""
        return dict(self._holds)

    async def bind(self, assignment: Assignment, atoms: Sequence[Atom]) -> Bound:
        """Hold."""
        assert len(atoms) == len(assignment.device_ids)
        self._holds[assignment.allocation_id] = assignment
        return cdi.bound(assignment)

    async def unbind(self, allocation_id: str) -> None:
        """Let go."""
        self._holds.pop(allocation_id, None)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
