"""`better-compute login`: check a token and keep it where only its owner reads it."""

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import click

from bettercompute.cli import contexts, settings
from bettercompute.cli import session as sessions
from bettercompute.cli.contexts import Config, Context
from bettercompute.cli.output import Shown, facts
from bettercompute.cli.session import Session
from bettercompute.cli.settings import Target

DEFAULT_URL = "http://127.0.0.1:8000"
HTTPS_PORT, HTTP_PORT = 443, 80
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Kept:
    """What is to be kept of a sign-in."""

    url: str
    token: str = field(repr=False)
    tenant: str


@click.command()
@click.option("--token-stdin", is_flag=True, help="Read the token from standard input.")
@sessions.command
def login(session: Session, *, token_stdin: bool) -> None:
    """Sign in at a server with an API token.

    The token is asked for without being shown, tried, and kept in a file that only you can read. It
    is never taken from the command line, where others could see it.

    Signing in at another server makes another context, and uses it: --context says its name.
    """
    from bettercompute.client import accounts

    url = _url(session, ask=not token_stdin)
    token = _token(from_stdin=token_stdin)
    if not is_protected(url):
        session.out.warn(f"{url} is not encrypted: whoever is on the way can read the token.")
    with sessions.connect(Target(url, token, None)) as client, session.out.progress("Signing in"):
        who = client.whoami()
    wanted = session.tenant or os.environ.get(settings.TENANT_VARIABLE, "").strip()
    tenant_id = accounts.choose(who, wanted)
    where = contexts.directory(os.environ)
    name = _keep(session, where, Kept(url, token, tenant_id))
    file = contexts.token_file(where, name)
    tenant = next(seat for seat in who.tenants if seat.id == tenant_id)
    session.out.show(
        Shown(
            document={
                "context": name,
                "url": url,
                "token": str(file),
                "tenantId": tenant_id,
                "whoami": who,
            },
            ids=[who.account_id],
            human=[
                f"Signed in at {url} as {who.username}.",
                *facts(
                    [
                        ("Tenant", f"{tenant.name} ({tenant.role})"),
                        ("Context", name),
                        ("Kept in", str(file)),
                    ]
                ),
            ],
        )
    )
    session.out.note("Next: better-compute pools")


def _keep(session: Session, where: Path, kept: Kept) -> str:
    """Have a context for it, and use that; its name.

    The one that is named, else the one in use if it is of this server, else one of the server's
    own name.
    """
    name = _name(session, contexts.load(where), kept.url)

    def signing_in(config: Config) -> Config:
        before = config.contexts.get(name)
        output = None if before is None else before.output
        made = Context(kept.url, contexts.FILE, kept.tenant, output)
        return Config(name, {**config.contexts, name: made})

    contexts.keep_secret(where, name, url=kept.url, token=kept.token)
    contexts.change(where, signing_in)
    return name


def _name(session: Session, config: Config, url: str) -> str:
    named = session.context or os.environ.get(settings.CONTEXT_VARIABLE, "").strip()
    if named:
        try:
            return contexts.require_name(named)
        except ValueError as error:
            raise click.UsageError(f"{error}.") from error
    if not config.contexts:
        return contexts.DEFAULT
    same = [name for name, each in config.contexts.items() if each.url == url]
    if config.current in same:
        return config.current
    return same[0] if same else _name_of_server(url)


def _name_of_server(url: str) -> str:
    """``compute.example.org``, with the port where it is a special one."""
    parts = urlsplit(url)
    host = (parts.hostname or "").replace(":", "-").strip(".-") or contexts.DEFAULT
    return host if parts.port in (None, HTTPS_PORT, HTTP_PORT) else f"{host}-{parts.port}"


def _url(session: Session, *, ask: bool) -> str:
    known = session.url or os.environ.get(settings.URL_VARIABLE, "").strip()
    if not known and ask and sys.stdin.isatty():
        known = click.prompt("Address of the server", default=DEFAULT_URL, err=True)
    return (known or DEFAULT_URL).strip().rstrip("/")


def _token(*, from_stdin: bool) -> str:
    """The token, from a prompt that does not show it, or from standard input."""
    if from_stdin:
        return sys.stdin.readline().strip()
    if not sys.stdin.isatty():
        raise click.UsageError(
            "There is no terminal to ask for the token at. Pipe it in with --token-stdin, or set "
            f"{settings.TOKEN_VARIABLE} and leave out login."
        )
    token: str = click.prompt("API token", hide_input=True, err=True)
    return token.strip()


def is_protected(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" or parts.hostname in _LOCAL_HOSTS
