"""Servers and identities under names: ``config.json``, and a file for each token beside it.

A context says where a server is, for which tenant to act and how to print, and has a reference to
a token: ``file`` (the one kept under the context's name) or ``env:NAME`` (a variable). So the
configuration itself has no secret. A token's file also has the address that it was saved for, and
is for no other: whoever edits the configuration cannot send it elsewhere.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from bettercompute.cli import private
from bettercompute.cli.private import Unusable

VERSION = 1
FILE = "file"
VARIABLE_PREFIX = "env:"
DEFAULT = "default"
LOGIN = "better-compute login"
#: What a file that is not as we wrote it may raise, one nested without end included.
_BROKEN = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")
_VARIABLE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*\Z")


@dataclass(frozen=True, slots=True)
class Context:
    """One server and identity."""

    url: str
    token: str | None = None  # a reference, never the token
    tenant: str | None = None
    output: str | None = None


@dataclass(frozen=True, slots=True)
class Config:
    """All of them, and the one that is used where none is named."""

    current: str | None = None
    contexts: Mapping[str, Context] = field(default_factory=dict)

    def having(self, name: str, context: Context) -> "Config":
        """The same with one more, or with another of that name."""
        return replace(self, contexts={**self.contexts, name: context})

    def without(self, name: str) -> "Config":
        """The same without one of them."""
        left = {each: found for each, found in self.contexts.items() if each != name}
        return Config(None if self.current == name else self.current, left)


@dataclass(frozen=True, slots=True)
class Secret:
    """A token, and whether others could read it until now."""

    token: str = field(repr=False)
    file: Path
    was_open: bool = False


def directory(environ: Mapping[str, str]) -> Path:
    """Where all of it is."""
    return private.home(environ, "XDG_CONFIG_HOME", ".config")


def config_file(where: Path) -> Path:
    """The configuration."""
    return where / "config.json"


def token_file(where: Path, name: str) -> Path:
    """The token of a context."""
    return where / "tokens" / f"{name}.json"


def require_name(name: str) -> str:
    """The name, which is also one of a file.

    Raises:
        ValueError: it is none.
    """
    if not _NAME.match(name):
        raise ValueError(f"{name!r} is no name: letters, digits, '.', '_' and '-'")
    return name


def load(where: Path) -> Config:
    """What is configured; nothing where nothing is.

    Raises:
        Unusable: it cannot be read, or is not what we wrote.
    """
    found = _read(where)
    return _migrate(where) if found is None else found


def change(where: Path, how: Callable[[Config], Config]) -> Config:
    """Change what is configured, as it is now and not as it was once read.

    Raises:
        Unusable: it cannot be read, or is not what we wrote.
        OSError: there is no room or no right to write it.
    """
    load(where)  # an earlier release's file is taken over first
    with private.alone(where):
        changed = how(_read(where) or Config())
        _write(where, changed)
        return changed


def secret(where: Path, name: str, context: Context) -> Secret | None:
    """The token that a context keeps in its file; None where it keeps none.

    Raises:
        Unusable: the file cannot be used, or is for another address.
    """
    file = token_file(where, name)
    content = private.read(file) if context.token == FILE else None
    if content is None:
        return None
    try:
        kept = json.loads(content.text)
        url, token = str(kept["url"]), str(kept["token"])
    except _BROKEN as error:
        raise Unusable(f"{file} is broken. Run `{LOGIN} --context {name}`.") from error
    if url != context.url:
        raise Unusable(
            f"The token of context {name} was saved for {url}, and is not sent to {context.url}. "
            f"Run `{LOGIN} --context {name}`."
        )
    return Secret(token, file, content.was_open)


def keep_secret(where: Path, name: str, *, url: str, token: str) -> None:
    """Keep a token for an address."""
    document = {"url": url, "token": token}
    private.write(token_file(where, name), json.dumps(document, indent=2) + "\n")


def forget_secret(where: Path, name: str) -> None:
    """Have none of this name."""
    token_file(where, name).unlink(missing_ok=True)


def is_reference(token: str) -> bool:
    """Whether this says where a token is."""
    return token == FILE or bool(_VARIABLE.match(token))


def variable(context: Context) -> str | None:
    """The variable that has the context's token, where it is one."""
    if context.token is None or not context.token.startswith(VARIABLE_PREFIX):
        return None
    return context.token.removeprefix(VARIABLE_PREFIX)


def _read(where: Path) -> Config | None:
    content = private.read(config_file(where))
    return None if content is None else _parsed(content.text, config_file(where))


def _parsed(text: str, file: Path) -> Config:
    try:
        found = json.loads(text)
        if found["version"] != VERSION:
            raise Unusable(f"{file} is of another release (version {found['version']}).")
        contexts = {
            require_name(name): _context(entry) for name, entry in found["contexts"].items()
        }
        current = found.get("current")
        return Config(current if current in contexts else None, contexts)
    except _BROKEN as error:
        raise Unusable(
            f"{file} is broken ({type(error).__name__}). Mend it, or remove it and run `{LOGIN}`."
        ) from error


def _context(entry: Mapping[str, Any]) -> Context:
    given = {name: entry.get(name) for name in ("token", "tenant", "output")}
    for value in (entry["url"], *given.values()):
        if value is not None and not isinstance(value, str):
            raise TypeError(value)
    token = given["token"]
    if token is not None and not is_reference(token):
        raise ValueError(token)
    return Context(url=entry["url"], **given)


def _write(where: Path, config: Config) -> None:
    contexts = {
        name: {key: value for key, value in asdict(context).items() if value is not None}
        for name, context in config.contexts.items()
    }
    document = {"version": VERSION, "current": config.current, "contexts": contexts}
    private.write(config_file(where), json.dumps(document, indent=2) + "\n")


def _migrate(where: Path) -> Config:
    """Take over the single server of an earlier release: its file had address, tenant and token."""
    file = where / "settings.json"
    if not file.exists():
        return Config()
    with private.alone(where):
        if (done := _read(where)) is not None:
            return done
        content = private.read(file)
        if content is None:
            return Config()
        try:
            found = json.loads(content.text)
            url, token, tenant = str(found["url"]), str(found["token"]), found.get("tenant")
        except _BROKEN as error:
            raise Unusable(f"{file} is broken. Remove it and run `{LOGIN}`.") from error
        config = Config(DEFAULT, {DEFAULT: Context(url, FILE, tenant)})
        keep_secret(where, DEFAULT, url=url, token=token)
        _write(where, config)
        file.unlink()
        return config
