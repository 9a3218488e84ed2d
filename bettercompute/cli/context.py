"""`better-compute context list | add | set | use | remove`: servers and identities under names."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from bettercompute.cli import contexts, offering, settings
from bettercompute.cli import session as sessions
from bettercompute.cli.contexts import Config, Context
from bettercompute.cli.groups import Collection
from bettercompute.cli.output import Cell, Format, Shown, Table
from bettercompute.cli.session import Session


class ContextName(click.ParamType[str]):
    """The name of a context."""

    name = "NAME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """As it is, where it can be one."""
        try:
            return contexts.require_name(str(value))
        except ValueError as error:
            self.fail(f"{error}", param, ctx)


_OUTPUT = click.option(
    "--prints", type=click.Choice([str(each) for each in Format]), help="How it prints."
)
_TOKEN = click.option(
    "--token-variable",
    "variable",
    metavar="VARIABLE",
    help="Its token is in this environment variable, and in no file.",
)


@click.group(cls=Collection)
def context() -> None:
    """Servers and identities under names, to go between.

    \b
    better-compute login --context staging --url https://staging.example.org
    better-compute context use staging
    better-compute list --context default
    """


@context.command("list")
@sessions.command
def list_(session: Session) -> None:
    """List the contexts; the one in use is marked."""
    found = contexts.load(_where())
    current = settings.chosen_name(os.environ, settings.Given(session.context), found)
    rows = [
        (
            Cell("*", "green") if name == current else "",
            name,
            each.url,
            each.tenant or "",
            _token_of(name, each),
            each.output or "",
        )
        for name, each in found.contexts.items()
    ]
    table = Table(("", "NAME", "SERVER", "TENANT", "TOKEN", "PRINTS"), rows, "No contexts.")
    items = [_document(name, each, current) for name, each in found.contexts.items()]
    session.out.show(Shown(document={"items": items}, ids=list(found.contexts), human=[table]))


@context.command()
@click.argument("name", type=ContextName())
@_OUTPUT
@_TOKEN
@sessions.command
def add(
    session: Session,
    *,
    name: str,
    prints: str | None,
    variable: str | None,
) -> None:
    """Add a context for the server of --url; `login --context NAME` also signs in."""
    if session.url is None:
        raise click.UsageError("Give --url: the address of the server.")
    url = session.url.strip().rstrip("/")
    made = Context(url, _reference(variable), session.tenant, prints)

    def adding(config: Config) -> Config:
        if name in config.contexts:
            raise click.UsageError(f"There is a context {name}: context set {name} changes it.")
        return Config(config.current or name, {**config.contexts, name: made})

    _show(session, contexts.change(_where(), adding), name)
    if variable is None:
        session.out.note(f"Next: {settings.LOGIN} --context {name}")


@context.command("set")
@click.argument("name", type=ContextName(), shell_complete=offering.contexts)
@_OUTPUT
@_TOKEN
@sessions.command
def set_(
    session: Session,
    *,
    name: str,
    prints: str | None,
    variable: str | None,
) -> None:
    """Change for whom a context acts, how it prints, or where its token is."""
    given: dict[str, str | None] = {
        "tenant": session.tenant,
        "output": prints,
        "token": _reference(variable),
    }
    changes = {each: value for each, value in given.items() if value is not None}
    if not changes:
        raise click.UsageError("Give --tenant, --prints or --token-variable.")

    def setting(config: Config) -> Config:
        return config.having(name, replace(_existing(config, name), **changes))

    _show(session, contexts.change(_where(), setting), name)
    if variable is not None:
        contexts.forget_secret(_where(), name)


@context.command()
@click.argument("name", type=ContextName(), shell_complete=offering.contexts)
@sessions.command
def use(session: Session, *, name: str) -> None:
    """Have commands use this context where no other is named."""

    def using(config: Config) -> Config:
        _existing(config, name)
        return Config(name, config.contexts)

    _show(session, contexts.change(_where(), using), name)
    if os.environ.get(settings.CONTEXT_VARIABLE):
        session.out.warn(f"{settings.CONTEXT_VARIABLE} is set, and comes first.")


@context.command()
@click.argument("name", type=ContextName(), shell_complete=offering.contexts)
@sessions.command
def remove(session: Session, *, name: str) -> None:
    """Forget a context and its token. The token works on: tokens revoke ends it."""

    def removing(config: Config) -> Config:
        _existing(config, name)
        return config.without(name)

    left = contexts.change(_where(), removing)
    contexts.forget_secret(_where(), name)
    document = {"name": name, "removed": True, "current": left.current}
    session.out.show(Shown(document=document, ids=[name], human=[f"{name}  removed"]))
    if left.current is None and left.contexts:
        session.out.note(f"Use another: better-compute context use {next(iter(left.contexts))}")


def _where() -> Path:
    return contexts.directory(os.environ)


def _existing(config: Config, name: str) -> Context:
    if name not in config.contexts:
        known = ", ".join(config.contexts) or "none"
        raise click.UsageError(f"There is no context {name}; there are: {known}.")
    return config.contexts[name]


def _reference(variable: str | None) -> str | None:
    if variable is None:
        return None
    reference = f"{contexts.VARIABLE_PREFIX}{variable}"
    if not contexts.is_reference(reference):
        raise click.BadParameter(f"{variable!r} is no variable", param_hint="--token-variable")
    return reference


def _token_of(name: str, found: Context) -> str:
    variable = contexts.variable(found)
    if variable is not None:
        return f"in {variable}"
    return "kept" if contexts.token_file(_where(), name).exists() else "none"


def _document(name: str, found: Context, current: str | None) -> Mapping[str, object]:
    return {
        "name": name,
        "url": found.url,
        "tenant": found.tenant,
        "token": _token_of(name, found),
        "output": found.output,
        "current": name == current,
    }


def _show(session: Session, config: Config, name: str) -> None:
    found = config.contexts[name]
    in_use = ", in use" if config.current == name else ""
    session.out.show(
        Shown(
            document=_document(name, found, config.current),
            ids=[name],
            human=[f"{name}  {found.url}{in_use}"],
        )
    )
