"""Intents whose answer is not known, so that the same command goes on with them (A8).

A key makes a request happen once, however often it is sent. A key that only the process knew dies
with it, and whoever then runs the command again would have two. So key and request are on disk
before the request leaves, and away once its answer is known. The same command, run again within a
quarter of an hour, finds them and sends the same request with the same key. What waits for a
person's confirmation is kept for as long as that can be given.

Who lives is told by a file lock, which the kernel drops with the process: two that run the same
command at once are two intents. Where the disk cannot be written there is no such memory, and
``--key`` does the same by hand.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bettercompute.cli import contexts, private, times
from bettercompute.cli.private import Unusable
from bettercompute.cli.session import Session
from bettercompute.cli.settings import Target
from bettercompute.client.failures import ClientError, ConfirmationRequired
from bettercompute.states import ConfirmationState

if TYPE_CHECKING:
    from bettercompute.client.blocking import Client

WITHIN_MS = 900_000
SUFFIX = ".json"

_STANDING: Mapping[ConfirmationState, str] = {
    ConfirmationState.OPEN: "waits for a confirmation",
    ConfirmationState.APPROVED: "has been confirmed",
    ConfirmationState.USED: "was confirmed, and done",
    ConfirmationState.DENIED: "was denied",
    ConfirmationState.EXPIRED: "was not confirmed in time",
}


@dataclass(slots=True)
class Intent:
    """What one run means to have happen once."""

    key: str
    #: what an earlier run sent and got no answer to; None where this is the first
    earlier: Mapping[str, Any] | None = None
    earlier_at_ms: int = 0
    #: what a person has to confirm first, where that is so
    confirmation_id: str = ""
    _file: Path | None = None
    _handle: int | None = field(default=None, repr=False)

    def remember(self, request: Mapping[str, Any]) -> None:
        """Have it on disk that this is about to be sent."""
        if self._file is None or self._handle is not None:
            return
        document = {"at": times.to_ms(times.now()), "key": self.key, "request": request}
        with contextlib.suppress(OSError, Unusable), private.alone(self._file.parent):
            self._handle = _opened(self._file, os.O_CREAT | os.O_EXCL)
            fcntl.flock(self._handle, fcntl.LOCK_EX)
            os.write(self._handle, json.dumps(document).encode())
            os.fsync(self._handle)

    def wait_for(self, asked: ConfirmationRequired) -> None:
        """A person has to confirm it first: the same command goes on with it until it lapses."""
        self.confirmation_id = asked.confirmation_id
        if self._handle is not None:
            with contextlib.suppress(OSError, ValueError):
                document = json.loads(os.pread(self._handle, private.SIZE_MAX, 0))
                asks = {"until": asked.expires_at, "confirmation": asked.confirmation_id}
                os.pwrite(self._handle, json.dumps({**document, **asks}).encode(), 0)
                os.fsync(self._handle)

    def settle(self) -> None:
        """Its answer is known: the same command means something new from now on."""
        if self._file is not None and self._handle is not None:
            with contextlib.suppress(OSError):
                self._file.unlink(missing_ok=True)
        self.let_go()

    def let_go(self) -> None:
        """Leave it to whoever runs the same command."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


@contextlib.contextmanager
def begin(session: Session, client: "Client", *typed: Any, key: str | None) -> Iterator[Intent]:
    """The intent of a command as it was typed: an earlier one without an answer, or a new one.

    With a key that was given there is nothing to find. What the server refused is settled.
    """
    intent = Intent(key) if key is not None else _found(session.target(), typed)
    if intent.earlier is not None and session.out.notes:
        at = times.moment(intent.earlier_at_ms, now=times.now(), zone=times.local_zone())
        why = _standing(client, intent.confirmation_id)
        session.out.note(
            f"Going on with the same command of {at}, which {why}; another --key makes another."
        )
    try:
        yield intent
    except ClientError as error:
        if isinstance(error, ConfirmationRequired):
            intent.wait_for(error)
        elif not error.may_have_happened:
            intent.settle()
        raise
    finally:
        intent.let_go()


def _standing(client: "Client", confirmation_id: str) -> str:
    """What became of the earlier one: it may have been answered since."""
    if not confirmation_id:
        return "got no answer"
    try:
        found = client.confirmations.get(confirmation_id)
    except ClientError:
        return "had to be confirmed"
    told = "was confirmed, and withdrawn" if found.withdrawn else _STANDING[found.state]
    return told + (f" ({found.reason})" if found.reason else "")


def _found(target: Target, typed: tuple[Any, ...]) -> Intent:
    directory = contexts.directory(os.environ) / "intents"
    name = _name(target, typed)
    fresh = Intent(secrets.token_hex(16))
    fresh._file = directory / f"{name}-{fresh.key}{SUFFIX}"
    with contextlib.suppress(OSError, Unusable), private.alone(directory):
        for file in sorted(directory.glob(f"*{SUFFIX}")):
            left = _left_behind(file, is_this=file.name.startswith(f"{name}-"))
            if left is not None:
                return left
    return fresh


def _left_behind(file: Path, *, is_this: bool) -> Intent | None:
    """The intent of this file, if it is the one that is meant and its process is gone.

    What is too old to be gone on with is taken away.
    """
    try:
        handle = _opened(file, 0)
    except OSError:
        return (
            None  # settled at this moment, or none of ours: the others are looked at all the same
        )
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    try:
        found = json.loads(os.read(handle, private.SIZE_MAX))
        key, request, at = str(found["key"]), dict(found["request"]), int(found["at"])
        until, asked = int(found.get("until", 0)), str(found.get("confirmation", ""))
        age = times.to_ms(times.now()) - at
        is_fresh = 0 <= age < max(WITHIN_MS, until - at)
    except (ValueError, KeyError, TypeError, RecursionError):
        is_fresh = False  # it died while writing this, before anything was sent
    if is_fresh and is_this:
        return Intent(key, request, at, asked, file, handle)
    if not is_fresh:
        file.unlink(missing_ok=True)
    os.close(handle)
    return None


def _opened(file: Path, flags: int) -> int:
    flags |= os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(file, flags, private.FILE_MODE)


def _name(target: Target, typed: tuple[Any, ...]) -> str:
    """The same for the same words to the same server by the same identity, and tells nothing."""
    whole = [target.url, target.tenant, target.token, *typed]
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:32]
