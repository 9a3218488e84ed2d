"""Files that only their owner may read or change.

Each is in a directory of ours that nobody else enters, is written whole or not at all, and is never
reached through a link, so that nobody makes us read or write elsewhere. One that was left open to
others is made private when it is met, and whoever reads it is told: what was in it may be known.
"""

import contextlib
import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

OTHERS = 0o077
FILE_MODE = 0o600
DIRECTORY_MODE = 0o700
SIZE_MAX = 1_048_576


class Unusable(Exception):
    """A file is there, and cannot be used; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Content:
    """What a file has, and whether others could read it until now."""

    text: str = field(repr=False)
    was_open: bool


def home(environ: Mapping[str, str], variable: str, default: str) -> Path:
    """Our directory below the one that an XDG variable names, or below its default."""
    base = environ.get(variable, "")
    # XDG: a relative path is invalid and is to be ignored.
    whole = Path(base) if Path(base).is_absolute() else Path.home() / default
    return whole / "better-compute"


def read(file: Path) -> Content | None:
    """What is in the file; None where there is none.

    Raises:
        Unusable: it is a link, no file, somebody else's, or no text.
    """
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise Unusable(f"{file} is a link, which is not followed. Remove it.") from error
        raise Unusable(f"{file} cannot be read: {error.strerror}.") from error
    try:
        was_open = _mend(handle, file, regular=True)
        with os.fdopen(handle, "rb", closefd=False) as opened:
            return Content(opened.read(SIZE_MAX).decode("utf-8"), was_open)
    except UnicodeDecodeError as error:
        raise Unusable(f"{file} is no text. Remove it.") from error
    finally:
        os.close(handle)


def write(file: Path, text: str) -> None:
    """Replace the file, whole or not at all. Whoever is to read it needs the directory, too.

    Raises:
        Unusable: the directory is somebody else's, or a link.
        OSError: there is no room or no right to write it.
    """
    make_directory(file.parent)
    temporary = file.with_name(f".{file.name}-{secrets.token_hex(4)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(temporary, flags, FILE_MODE)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as opened:
            os.fchmod(opened.fileno(), FILE_MODE)  # whatever the umask took away
            opened.write(text)
            opened.flush()
            os.fsync(opened.fileno())
        temporary.replace(file)  # a link there is replaced, not followed
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def make_directory(directory: Path) -> None:
    """Have the directory, entered by its owner alone.

    Raises:
        Unusable: it is somebody else's, or a link.
    """
    directory.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
    with _opened(directory) as handle:
        _mend(handle, directory, regular=False)


@contextlib.contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Hold the directory: of several programs that change what is in it, one at a time does."""
    make_directory(directory)
    with _opened(directory) as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield  # closing it lets go, and so does dying


@contextlib.contextmanager
def _opened(directory: Path) -> Iterator[int]:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        handle = os.open(directory, flags)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise Unusable(f"{directory} is a link or no directory. Move it away.") from error
        raise
    try:
        yield handle
    finally:
        os.close(handle)


def _mend(handle: int, path: Path, *, regular: bool) -> bool:
    """Take others' rights away; whether they had any."""
    found = os.fstat(handle)
    if regular and not stat.S_ISREG(found.st_mode):
        raise Unusable(f"{path} is no file. Move it away.")
    if found.st_uid != os.geteuid():
        raise Unusable(f"{path} belongs to another user, who could change it. Move it away.")
    if not found.st_mode & OTHERS:
        return False
    os.fchmod(handle, FILE_MODE if regular else DIRECTORY_MODE)
    return True
