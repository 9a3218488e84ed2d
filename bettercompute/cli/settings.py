"""Where the server is and who we are: flag before environment before file.

The file has the token, so only its owner may read it. A token is sent only to the address it was
saved with: a flag or variable that names another server needs BETTER_COMPUTE_TOKEN as well.
"""

import contextlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

URL_VARIABLE = "BETTER_COMPUTE_URL"
TOKEN_VARIABLE = "BETTER_COMPUTE_TOKEN"  # noqa: S105  (a name, not a token)
TENANT_VARIABLE = "BETTER_COMPUTE_TENANT"
LOGIN = "better-compute login"


class NotSignedIn(Exception):
    """There is no address or no token; the message says what to do."""


class UnreadableFile(Exception):
    """The settings file is there, and is not ours; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What the file has."""

    url: str
    token: str = field(repr=False)
    tenant: str | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """The server to talk to, and as whom."""

    url: str
    token: str = field(repr=False)
    tenant: str | None


def path(environ: Mapping[str, str]) -> Path:
    """The settings file, by the XDG rules."""
    base = environ.get("XDG_CONFIG_HOME", "")
    # XDG: a relative path is invalid and is to be ignored.
    home = Path(base) if Path(base).is_absolute() else Path.home() / ".config"
    return home / "better-compute" / "settings.json"


def target(
    environ: Mapping[str, str], *, url: str | None = None, tenant: str | None = None
) -> Target:
    """What a command talks to.

    Raises:
        NotSignedIn: no address, or no token for that address.
        UnreadableFile: the file is broken, and is needed.
    """
    named_url = (url or environ.get(URL_VARIABLE, "")).strip().rstrip("/")
    named_token = environ.get(TOKEN_VARIABLE, "").strip()
    named_tenant = tenant or environ.get(TENANT_VARIABLE, "").strip() or None
    if named_url and named_token:
        return Target(named_url, named_token, named_tenant)
    stored = read(path(environ))
    if stored is None:
        missing = TOKEN_VARIABLE if named_url else f"{URL_VARIABLE} and {TOKEN_VARIABLE}"
        raise NotSignedIn(f"You are not signed in. Run `{LOGIN}`, or set {missing}.")
    if named_token:
        return Target(stored.url, named_token, named_tenant)
    if named_url not in ("", stored.url):
        raise NotSignedIn(
            f"You are signed in at {stored.url}, not at {named_url}. "
            f"Run `{LOGIN} --url {named_url}`, or set {TOKEN_VARIABLE}."
        )
    return Target(stored.url, stored.token, named_tenant or stored.tenant)


def read(file: Path) -> Stored | None:
    """What the file has; None where there is none.

    Raises:
        UnreadableFile: it cannot be read, or is not what we wrote.
    """
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        return Stored(
            url=str(content["url"]), token=str(content["token"]), tenant=content.get("tenant")
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnreadableFile(
            f"{file} cannot be read ({type(error).__name__}). Remove it and run `{LOGIN}`."
        ) from error


def write(file: Path, stored: Stored) -> None:
    """Replace the file, whole or not at all, readable by its owner alone.

    Raises:
        OSError: there is no room or no right to write it.
    """
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=".settings-", dir=file.parent)  # mode 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as opened:
            json.dump(asdict(stored), opened, indent=2)
            opened.write("\n")
        Path(temporary).replace(file)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise


def is_private(file: Path) -> bool:
    """Whether nobody but its owner may read the file."""
    return not file.stat().st_mode & 0o077
