"""`better-compute policies …`: those that bind, and what one would decide before it does."""

from typing import Any

import click

from bettercompute.cli import asking, readers
from bettercompute.cli import policy_documents as documents
from bettercompute.cli import session as sessions
from bettercompute.cli.exits import Exit
from bettercompute.cli.groups import Collection
from bettercompute.cli.output import Shown, Table
from bettercompute.cli.session import Session
from bettercompute.cli.views import Reader
from bettercompute.wire.dryrun import RECENT_MAX, PolicyVerdict, RecentVerdicts
from bettercompute.wire.iam import PolicyExample

RECENT_DEFAULT = 100


@click.group(cls=Collection, one="get")
def policies() -> None:
    """Who may reserve what: policies that bind, shipped examples, and trying one before it binds.

    \b
    better-compute policies try --example students --as member --pool main --gpus 4 --for 8h
    better-compute policies create students --example students
    """


for each in (
    documents.list_,
    documents.get,
    documents.create,
    documents.replace,
    documents.enable,
    documents.disable,
    documents.delete,
):
    policies.add_command(each)


@policies.command()
@click.argument("name", required=False)
@sessions.command
def examples(session: Session, *, name: str | None) -> None:
    """List the shipped example policies, or print the text of one."""
    with session.client() as client:
        found = client.policies.examples()
    if name is None:
        session.out.show(_listed(found))
        return
    session.out.show(_text(documents.named(found, name)))


@policies.command(name="try")
@documents.source
@click.option("--replaces", metavar="ID", help="The saved policy that it would replace.")
@click.option("--as", "role", type=click.Choice(["admin", "member"]), help="In which role.")
@click.option("--agent", "delegated", is_flag=True, help="As an agent that acts for them.")
@click.option(
    "--recent",
    type=click.IntRange(0, RECENT_MAX),
    default=RECENT_DEFAULT,
    show_default=True,
    help="So many of the latest reservations are judged as well.",
)
@asking.options
@sessions.command
def try_(
    session: Session,
    /,
    *,
    path: str | None,
    example: str | None,
    replaces: str | None,
    role: str | None,
    delegated: bool,
    recent: int,
    **given: Any,
) -> None:
    """What the policies would say to a reservation, with one that is not saved. Stores nothing.

    Takes the options of reserve. Exits with 0 if it would be allowed, with 4 if not.

    \b
    better-compute policies try --example students --as member --pool main --gpus 4 --for 8h
    """
    wanted = asking.wanted(session, given)
    fields: Any = dict(wanted.fields)
    with session.client() as client:
        verdict = client.policies.try_(
            pool_id=client.pools.find(wanted.pool).id,
            text=documents.text(client, path, example),
            replaces=replaces,
            role=role,
            delegated=delegated or None,
            recent=recent,
            **fields,
        )
    session.out.show(_verdict(verdict, readers.here()))
    if verdict.effect == "deny":
        raise click.exceptions.Exit(Exit.DENIED)


def _listed(found: list[PolicyExample]) -> Shown:
    rows = [(each.name, each.about) for each in found]
    table = Table(("NAME", "WHAT IT DOES"), rows, "No examples are shipped.")
    return Shown(document={"items": found}, ids=[each.name for each in found], human=[table])


def _text(found: PolicyExample) -> Shown:
    return Shown(document=found, ids=[found.name], human=found.text.splitlines())


def _verdict(verdict: PolicyVerdict, reader: Reader) -> Shown:
    by = f" by {', '.join(verdict.policies)}" if verdict.policies else ""
    allowed = verdict.effect == "allow"
    human: list[str | Table] = [f"{'Allowed' if allowed else 'Denied'}{by}."]
    human += [] if allowed else [f"  {verdict.message}"]
    told = [(name, _value(value)) for name, value in verdict.attributes.items()]
    human += ["", Table(("ATTRIBUTE", "VALUE"), told, "")]
    if verdict.recent is not None:
        human += ["", *_recent(verdict.recent, reader)]
    return Shown(document=verdict, ids=list(verdict.policies), human=human)


def _recent(recent: RecentVerdicts, reader: Reader) -> list[str | Table]:
    told = f"Of the latest {recent.judged} reservations {len(recent.denied)} would be denied."
    rows = [
        (
            each.reservation_id,
            str(each.state),
            reader.moment(each.created_at),
            ", ".join(each.policies),
        )
        for each in recent.denied
    ]
    if not rows:
        return [told]
    return [told, Table(("ID", "STATE", "MADE", "DENIED BY"), rows, "")]


def _value(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
