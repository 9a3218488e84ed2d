"""Which user the services run as.

PostgreSQL refuses to run as root. Started by root, PostgreSQL and Valkey run as a system account of
their own; started by anybody else, as that user. Permissions of directories that are not ours are
never changed: where the account cannot reach a path, the caller chooses another place.
"""

import os
import pwd
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bettercompute.embedded.failures import CannotStart

SERVICE_ACCOUNT = "better-compute"


@dataclass(frozen=True, slots=True)
class Account:
    """A user other than the one this process runs as."""

    uid: int
    gid: int


def for_services(existing: Path) -> Account | None:
    """The account that PostgreSQL and Valkey run as; None is this process's own user.

    Root follows the owner of an existing data directory, so that it can start what a user made.
    """
    if os.geteuid() != 0:
        return None
    if existing.exists() and (owner := existing.stat()).st_uid != 0:
        return Account(uid=owner.st_uid, gid=owner.st_gid)
    try:
        entry = pwd.getpwnam(SERVICE_ACCOUNT)
    except KeyError:
        _create_service_account()
        entry = pwd.getpwnam(SERVICE_ACCOUNT)
    return Account(uid=entry.pw_uid, gid=entry.pw_gid)


def can_reach(directory: Path, *, account: Account | None) -> bool:
    """Whether the account may pass through the directory and every one above it."""
    if account is None:
        return True
    resolved = directory.resolve()
    return all(_may_pass(path.stat(), account=account) for path in [resolved, *resolved.parents])


def own(directory: Path, *, account: Account | None) -> None:
    """Make a private directory of the account's.

    Raises:
        CannotStart: somebody else was there first, as may happen in a shared temporary directory.
    """
    owner = os.geteuid() if account is None else account.uid
    try:
        directory.mkdir(mode=0o700)
    except FileExistsError:
        info = directory.lstat()
        if not stat.S_ISDIR(info.st_mode) or info.st_uid not in (owner, os.geteuid()):
            raise CannotStart(f"{directory} is not a directory of ours: remove it first.") from None
    if account is not None:
        os.chown(directory, account.uid, account.gid, follow_symlinks=False)
    directory.chmod(0o700)


def _create_service_account() -> None:
    command = ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin"]
    try:
        subprocess.run([*command, SERVICE_ACCOUNT], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        reason = getattr(error, "stderr", None) or error
        raise CannotStart(
            f"PostgreSQL does not run as root, and the account {SERVICE_ACCOUNT} cannot be created "
            f"({str(reason).strip()}): start as a normal user, or set DATABASE_URL and REDIS_URL."
        ) from error


def _may_pass(info: os.stat_result, *, account: Account) -> bool:
    if info.st_uid == account.uid:
        return bool(info.st_mode & stat.S_IXUSR)
    if info.st_gid == account.gid:
        return bool(info.st_mode & stat.S_IXGRP)
    return bool(info.st_mode & stat.S_IXOTH)
