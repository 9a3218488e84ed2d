"""The policies that bind a tenant: listed, saved, switched off, taken away."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bettercompute.cli import completing, views
from bettercompute.cli import session as sessions
from bettercompute.cli.output import Cell, Shown, Table, facts
from bettercompute.cli.session import Session
from bettercompute.wire.iam import Policy, PolicyExample

if TYPE_CHECKING:
    from bettercompute.client.blocking import Client


def source(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say where a policy's text is."""
    example = click.option(
        "--example", metavar="NAME", help="The text of a shipped example instead of a file."
    )
    file = click.option(
        "--file", "path", metavar="FILE", help="Its text is in this file; - reads stdin."
    )
    return file(example(function))


def text(client: "Client", path: str | None, example: str | None) -> str | None:
    """The text that these options mean; None without either.

    Raises:
        click.UsageError: both are given.
        click.BadParameter: there is no such example, or the file is no text.
    """
    if path is not None and example is not None:
        raise click.UsageError("Give --file or --example, not both.")
    if example is not None:
        return named(client.policies.examples(), example).text
    if path is None:
        return None
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        message = f"{path} is not valid UTF-8: {error.reason} at byte {error.start}"
        raise click.BadParameter(message, param_hint="--file") from error


def named(found: list[PolicyExample], name: str) -> PolicyExample:
    """The example of this name."""
    for each in found:
        if each.name == name:
            return each
    names = ", ".join(each.name for each in found)
    raise click.BadParameter(f"there is no example {name}; there are {names}")


@click.command("list")
@sessions.command
def list_(session: Session) -> None:
    """List the policies that bind your tenant, the platform's first."""
    with session.client() as client:
        found = client.policies.list()
    rows = [
        (
            each.id,
            each.name,
            each.scope,
            Cell("binds", "green") if each.enabled else Cell("off", "yellow"),
            str(each.version),
        )
        for each in found
    ]
    columns = ("ID", "NAME", "SCOPE", "STATE", "VERSION")
    table = Table(columns, rows, "No policy binds your tenant.")
    session.out.show(
        Shown(document={"items": found}, ids=[each.id for each in found], human=[table])
    )


@click.command()
@click.argument("policy_id", metavar="ID", shell_complete=completing.policies)
@sessions.command
def get(session: Session, *, policy_id: str) -> None:
    """Show a policy and its text."""
    with session.client() as client:
        session.out.show(_one(client.policies.get(policy_id)))


@click.command()
@click.argument("name")
@source
@click.option("--off", is_flag=True, help="Save it without having it bind anybody yet.")
@click.option("--platform", is_flag=True, help="For all tenants; for operators.")
@sessions.command
def create(
    session: Session,
    *,
    name: str,
    path: str | None,
    example: str | None,
    off: bool,
    platform: bool,
) -> None:
    """Save a policy; it binds from the next request on. Try it first: policies try."""
    with session.client() as client:
        wanted = text(client, path, example)
        if wanted is None:
            raise click.UsageError("Give --file or --example.")
        made = client.policies.create(
            name=name, text=wanted, enabled=not off, scope="platform" if platform else "tenant"
        )
    session.out.show(_one(made))


@click.command()
@click.argument("policy_id", metavar="ID", shell_complete=completing.policies)
@source
@click.option("--name", help="A new name.")
@sessions.command
def replace(
    session: Session, *, policy_id: str, path: str | None, example: str | None, name: str | None
) -> None:
    """Save another text or name of a policy, unless somebody else does so meanwhile."""
    with session.client() as client:
        wanted = text(client, path, example)
        if wanted is None and name is None:
            raise click.UsageError("Give --file, --example or --name.")
        _change(session, client, policy_id, text=wanted, name=name)


@click.command()
@click.argument("policy_id", metavar="ID", shell_complete=completing.policies)
@sessions.command
def enable(session: Session, *, policy_id: str) -> None:
    """Have a policy bind from the next request on."""
    with session.client() as client:
        _change(session, client, policy_id, enabled=True)


@click.command()
@click.argument("policy_id", metavar="ID", shell_complete=completing.policies)
@sessions.command
def disable(session: Session, *, policy_id: str) -> None:
    """Have a policy bind nobody, and keep it."""
    with session.client() as client:
        _change(session, client, policy_id, enabled=False)


@click.command()
@click.argument("policy_id", metavar="ID", shell_complete=completing.policies)
@sessions.command
def delete(session: Session, *, policy_id: str) -> None:
    """Take a policy away. To keep its text, disable it instead."""
    with session.client() as client:
        client.policies.delete(policy_id)
    session.out.show(views.deleted(policy_id))


def _change(session: Session, client: "Client", policy_id: str, **changes: Any) -> None:
    """Save it with these changes, as the version that was read."""
    found = client.policies.get(policy_id)
    kept: dict[str, Any] = {"name": found.name, "text": found.text, "enabled": found.enabled}
    given = {name: value for name, value in changes.items() if value is not None}
    saved = client.policies.replace(
        policy_id, **{**kept, **given}, scope=found.scope, version=found.version
    )
    session.out.show(_one(saved, with_text=changes.get("text") is not None))


def _one(found: Policy, *, with_text: bool = True) -> Shown:
    told: list[str | Table] = [f"{found.id}  {found.name}"]
    told += facts(
        [
            ("State", "binds" if found.enabled else "off"),
            ("Scope", "all tenants" if found.scope == "platform" else "this tenant"),
            ("Version", str(found.version)),
        ]
    )
    told += ["", *found.text.splitlines()] if with_text else []
    return Shown(document=found, ids=[found.id], human=told)
