"""`better-compute whoami | members | quotas`: who acts, with whom, and within what."""

import click

from bettercompute.cli import pool_views, readers
from bettercompute.cli import session as sessions
from bettercompute.cli.output import Shown, Table, facts
from bettercompute.cli.session import Session
from bettercompute.wire.iam import Member, WhoAmI


@click.command()
@sessions.command
def whoami(session: Session) -> None:
    """Show who your token stands for, and the tenants you may act for."""
    target = session.target()
    with session.client() as client:
        who = client.whoami()
    session.out.show(_who(who, target.url))


@click.command()
@sessions.command
def members(session: Session) -> None:
    """List who can act for your tenant: those a reservation can be shared with."""
    with session.client() as client:
        session.out.show(_members(client.members()))


@click.command()
@sessions.command
def quotas(session: Session) -> None:
    """Show what your tenant holds of each resource, and may hold."""
    with session.client() as client:
        found = client.quotas()
        session.out.show(pool_views.quotas(found, readers.with_pools(session, client)))


def _agent(who: WhoAmI) -> str:
    """Where an agent acts: its name, and what it asks its person for."""
    if who.token is None or who.token.delegation is None:
        return ""
    held = ", ".join(each.rpartition(":")[2] for each in who.token.delegation.confirm)
    return f"{who.token.delegation.agent}, asking first for {held or 'nothing'}"


def _who(who: WhoAmI, url: str) -> Shown:
    told: list[str | Table] = [f"{who.username} at {url}"]
    told += facts(
        [
            ("Account", who.account_id),
            ("Operator", "yes" if who.operator else ""),
            ("Time zone", who.time_zone),
            ("Token", "" if who.token is None else f"{who.token.name} ({who.token.id})"),
            ("Agent", _agent(who)),
        ]
    )
    rows = [(seat.slug, seat.id, seat.name, seat.role) for seat in who.tenants]
    told += ["", Table(("TENANT", "ID", "NAME", "ROLE"), rows, "You belong to no tenant.")]
    return Shown(document=who, ids=[who.account_id], human=told)


def _members(found: list[Member]) -> Shown:
    rows = [(each.username, each.account_id, each.role) for each in found]
    table = Table(("NAME", "ID", "ROLE"), rows, "Nobody can act for this tenant.")
    return Shown(document={"items": found}, ids=[each.account_id for each in found], human=[table])
