"""Where an embedded deployment keeps its files.

The data directory (`home`) is the user's. The services' own files (`services`) lie in it too,
unless root starts and the services' account cannot reach it, as under /root: then they lie under
/var/lib/better-compute, and the data directory points there. So moving the data directory moves
everything, and deleting it starts afresh.
"""

import hashlib
import json
import os
import secrets
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bettercompute.embedded import accounts
from bettercompute.embedded.accounts import Account
from bettercompute.embedded.failures import CannotStart

SYSTEM_DIRECTORY = Path("/var/lib/better-compute")
FIRST_START_MIB = 300  # initdb writes 40 MiB, WAL up to 64, a copy of the programs 42
LATER_START_MIB = 64

# sockaddr_un holds 104 bytes on macOS, 108 on Linux; ours end in `/.s.PGSQL.5432.lock`.
_SOCKET_DIRECTORY_BYTES_MAX = 80


@dataclass(frozen=True, slots=True)
class Directories:
    """The directories of one embedded deployment, all of them made."""

    home: Path
    services: Path
    account: Account | None

    @property
    def logs(self) -> Path:
        return self.home / "logs"

    @property
    def postgres(self) -> Path:
        return self.services / "pg"

    @property
    def valkey(self) -> Path:
        return self.services / "valkey"

    @property
    def sockets(self) -> Path:
        """Private to the services' account, and short enough for the address of a socket."""
        inside = self.services / "run"
        if len(os.fsencode(inside)) <= _SOCKET_DIRECTORY_BYTES_MAX:
            return inside
        name = f"better-compute-{hashlib.sha256(os.fsencode(self.services)).hexdigest()[:12]}"
        return Path(tempfile.gettempdir()) / name


def make_home(path: Path) -> Path:
    """The data directory, made if it is not there, as an absolute path without symbolic links.

    Raises:
        CannotStart: it cannot be made, or not be written to.
    """
    try:
        home = path.expanduser().resolve()
        home.mkdir(parents=True, exist_ok=True, mode=0o711)
        (home / "logs").mkdir(exist_ok=True, mode=0o755)
        with tempfile.TemporaryFile(dir=home) as probe:
            probe.write(b"\0" * 4096)
    except OSError as error:
        raise CannotStart(
            f"The data directory {path} cannot be written: {error.strerror}. "
            "Set BETTERCOMPUTE_DATA to another directory."
        ) from error
    return home


def require_space(home: Path) -> None:
    """Refuse to start on a disk that would fill up during the start."""
    pointer = home / "services"
    first = not (home / "pg").exists() and not pointer.exists()
    needed_mib = FIRST_START_MIB if first else LATER_START_MIB
    free_mib = shutil.disk_usage(home).free // 2**20
    if free_mib < needed_mib:
        raise CannotStart(
            f"The disk of {home} is full: {free_mib} MiB are free and {needed_mib} are needed. "
            "Make room, or set BETTERCOMPUTE_DATA to a directory on another disk."
        )


def remove_counts(home: Path) -> None:
    """Forget what an earlier start counted; its processes are stopped."""
    shutil.rmtree(home / "metrics", ignore_errors=True)


def of_services(home: Path) -> list[Path]:
    """Where the services of an earlier start worked, whether or not they are there."""
    services = _services_of(home)
    return [services / "pg", services / "valkey"]


def place_services(home: Path) -> Directories:
    """Choose the place of the services' files, and make their directories.

    Raises:
        CannotStart: the services' account can no longer reach the files it wrote.
    """
    services = _services_of(home)
    account = accounts.for_services(services / "pg")
    if not accounts.can_reach(services, account=account):
        if services != home or (home / "pg" / "PG_VERSION").exists():
            raise CannotStart(
                f"The account that runs PostgreSQL can no longer reach its files in {services}: "
                "let others pass through (chmod o+x) each directory above them."
            )
        services = _place_outside(home)
    placed = Directories(home=home, services=services, account=account)
    for directory in (placed.postgres, placed.valkey, placed.sockets):
        accounts.own(directory, account=account)
    return placed


def remove_sockets(directories: Directories) -> None:
    """Leave no socket behind, nor a directory outside the data directory."""
    shutil.rmtree(directories.sockets, ignore_errors=True)


def remove(directories: Directories) -> None:
    """Delete the deployment's files, wherever they lie."""
    remove_sockets(directories)
    for path in (directories.services, directories.home):
        shutil.rmtree(path, ignore_errors=True)


def secret(home: Path, name: str) -> str:
    """A random secret of this deployment, made at the first use and readable by its owner alone."""
    path = home / name
    if not path.exists():
        write_private(path, secrets.token_urlsafe(48))
    return path.read_text(encoding="utf-8").strip()


def write_private(path: Path, text: str) -> None:
    """Write a file of mode 0600 at once: readers see the old content or the new, never a part."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _services_of(home: Path) -> Path:
    pointer = home / "services"
    if not pointer.exists():
        return home
    return Path(json.loads(pointer.read_text(encoding="utf-8"))["path"])


def _place_outside(home: Path) -> Path:
    # The name's random part tells a new data directory from an earlier one at the same path.
    name = hashlib.sha256(os.fsencode(home)).hexdigest()[:16]
    services = SYSTEM_DIRECTORY / f"{name}-{secrets.token_hex(4)}"
    services.mkdir(parents=True)
    for directory in (SYSTEM_DIRECTORY, services):  # whatever the umask: others pass, nobody lists
        directory.chmod(0o711)
    write_private(home / "services", json.dumps({"path": str(services)}))
    return services
