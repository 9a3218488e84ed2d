"""`better-compute login`: check a token and keep it where only its owner reads it."""

import os
import sys
from urllib.parse import urlsplit

import click

from bettercompute.cli import session as sessions
from bettercompute.cli import settings
from bettercompute.cli.output import Shown, facts
from bettercompute.cli.session import Session
from bettercompute.cli.settings import Stored, Target

DEFAULT_URL = "http://127.0.0.1:8000"
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")


@click.command()
@click.option("--token-stdin", is_flag=True, help="Read the token from standard input.")
@sessions.command
def login(session: Session, *, token_stdin: bool) -> None:
    """Sign in at a server with an API token.

    The token is asked for without being shown, tried, and kept in a file that only you can read. It
    is never taken from the command line, where others could see it.
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
    file = settings.path(os.environ)
    settings.write(file, Stored(url=url, token=token, tenant=tenant_id))
    tenant = next(seat for seat in who.tenants if seat.id == tenant_id)
    session.out.show(
        Shown(
            document={"url": url, "settings": str(file), "tenantId": tenant_id, "whoami": who},
            ids=[who.account_id],
            human=[
                f"Signed in at {url} as {who.username}.",
                *facts([("Tenant", f"{tenant.name} ({tenant.role})"), ("Kept in", str(file))]),
            ],
        )
    )
    session.out.note("Next: better-compute pools")


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
