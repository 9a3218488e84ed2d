"""What every command shares: the options, the output, and the client made when it is needed."""

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar

import click

from bettercompute.cli import offering, settings
from bettercompute.cli.output import Format, Output

if TYPE_CHECKING:
    from bettercompute.client.blocking import Client

P = ParamSpec("P")
T = TypeVar("T")
Option: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]

TIMEOUT_SECONDS = 30.0


@dataclass(slots=True)
class Session:
    """One run of the command line."""

    out: Output = field(default_factory=Output)
    url: str | None = None
    tenant: str | None = None
    context: str | None = None
    debug: bool = False
    _target: settings.Target | None = None

    @property
    def token_is_from_variable(self) -> bool:
        """Whether the token in use is the one that the environment names."""
        return self._target is not None and self._target.context is None

    @property
    def given(self) -> settings.Given:
        """What the command line names of it."""
        return settings.Given(self.url, self.tenant, self.context)

    def target(self) -> settings.Target:
        """The server to talk to, and as whom.

        Raises:
            settings.NotSignedIn: it is not known.
            private.Unusable: the configuration is needed and broken.
        """
        if self._target is None:
            self._target = settings.target(os.environ, self.given)
        return self._target

    def client(self) -> "Client":
        """A client for it; close it, best by ``with``."""
        target = self.target()
        if target.was_open:
            self.out.warn(
                f"Others could read your token in {target.token_file}. Now only you can; if they "
                "are not to be trusted, revoke it: better-compute tokens revoke"
            )
        client = connect(target)
        if self.debug:
            from bettercompute.cli import debugging

            client.api.observe = debugging.exchanged
        return client

    def prefer(self) -> None:
        """Print as the context says, where the command line does not."""
        if not self.out.is_asked:
            output = settings.preferred_output(os.environ, self.given)
            if output in set(Format):
                self.out.format = Format(output)


def connect(target: settings.Target) -> "Client":
    """A client for a target.

    Raises:
        click.UsageError: the address is none, or the token cannot be one.
        click.ClickException: the environment names a proxy or certificates that cannot be used.
    """
    from bettercompute.client.blocking import Client

    try:
        return Client(target.url, target.token, target.tenant, timeout=TIMEOUT_SECONDS)
    except ValueError as error:
        raise click.UsageError(f"{error}.") from error
    except ImportError as error:
        told = "The proxy in the environment is a SOCKS proxy: use one of HTTP, or NO_PROXY."
        raise click.ClickException(told) from error
    except OSError as error:
        told = f"SSL_CERT_FILE or SSL_CERT_DIR cannot be read: {error.strerror}."
        raise click.ClickException(told) from error


def command(
    function: Callable[Concatenate[Session, P], T],
) -> Callable[P, T]:
    """Give a command the options that all have, and the session as its first argument."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        session = click.get_current_context().find_object(Session)
        assert session is not None, "main puts it there"
        session.prefer()
        return function(session, *args, **kwargs)

    made: Callable[P, T] = run
    for option in reversed(_OPTIONS):
        made = option(made)
    return made


def _set(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    """An option's callback that keeps its value in the session, if it was given."""

    def keep(context: click.Context, _: click.Parameter, value: Any) -> None:
        session = context.find_object(Session)
        if session is None or not value:
            return  # completion asks for values without a session
        match name:
            case "json":
                session.out.ask(Format.JSON)
            case "output":
                session.out.ask(Format(value))
            case "quiet":
                session.out.quiet = True
            case _:
                setattr(session, name, value)

    return keep


def _option(name: str, *short: str, **how: Any) -> Option:
    """An option that every command has, kept in the session and not handed to the command."""
    return click.option(f"--{name}", *short, expose_value=False, callback=_set(name), **how)


# Eager are those that say how to print: what is wrong with the others is printed so, too.
_OPTIONS: tuple[Option, ...] = (
    _option(
        "output",
        type=click.Choice([str(each) for each in Format]),
        is_eager=True,
        help="How to print the result.",
    ),
    _option(
        "json",
        is_flag=True,
        is_eager=True,
        help="The same as --output json: one document on stdout.",
    ),
    _option("quiet", "-q", is_flag=True, is_eager=True, help="No progress and no hints."),
    _option(
        "url",
        metavar="URL",
        help="The server, instead of BETTER_COMPUTE_URL or the one signed in at.",
    ),
    _option("tenant", metavar="TENANT", help="The tenant to act for, by id or short name."),
    _option(
        "debug",
        is_flag=True,
        is_eager=True,
        envvar="BETTER_COMPUTE_DEBUG",
        help="Say each request, and where errors come from; never a secret.",
    ),
    _option(
        "context",
        metavar="NAME",
        shell_complete=offering.contexts,
        help="Use this context: better-compute context list.",
    ),
)
