"""`better-compute doctor`: from the settings to the server, what works and what to do if not.

For operators of the platform it goes on to what the system itself promises (C39).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

import click

from bettercompute.cli import session as sessions
from bettercompute.cli import settings, times
from bettercompute.cli.exits import Exit
from bettercompute.cli.login import is_protected
from bettercompute.cli.output import Cell, Shown, Table
from bettercompute.cli.private import Unusable
from bettercompute.cli.session import Session
from bettercompute.cli.settings import Target

if TYPE_CHECKING:
    from bettercompute.client.blocking import Client
    from bettercompute.client.calls import Answer

CLOCK_DIFFERENCE_MAX = timedelta(seconds=5)
SHOWN_MAX = 200


class Verdict(StrEnum):
    """How a check came out."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


_COLOURS = {Verdict.OK: "green", Verdict.WARNING: "yellow", Verdict.FAILED: "red"}


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str  # area.check
    verdict: Verdict
    message: str
    do: str = ""


@click.command()
@sessions.command
def doctor(session: Session) -> None:
    """Check settings, server, token and clock, and say what to do. Exits with 1 if one fails."""
    with session.out.progress("Looking"):
        checks = list(_run(session))
    rows = [
        (Cell(str(each.verdict), _COLOURS[each.verdict]), each.name, each.message, each.do)
        for each in checks
    ]
    bad = [each for each in checks if each.verdict is not Verdict.OK]
    session.out.show(
        Shown(
            document={"checks": [_document(each) for each in checks]},
            ids=[each.name for each in bad],
            human=[Table(("", "CHECK", "FOUND", "WHAT TO DO"), rows, "")],
        )
    )
    if any(each.verdict is Verdict.FAILED for each in checks):
        raise click.exceptions.Exit(Exit.ERROR)


def _document(check: Check) -> dict[str, str]:
    return {
        "check": check.name,
        "verdict": str(check.verdict),
        "message": check.message,
        "do": check.do,
    }


def _run(session: Session) -> Iterator[Check]:
    """Each check in turn, as far as the ones before it allow."""
    try:
        target = session.target()
        yield from _file(target)
        client = sessions.connect(target)
    except (settings.NotSignedIn, Unusable) as error:
        yield Check("settings.target", Verdict.FAILED, "no server or no token", str(error))
        return
    except click.UsageError as error:
        do = f"Correct the address or the token: {settings.LOGIN}"
        yield Check("settings.target", Verdict.FAILED, error.message, do)
        return
    yield Check("settings.target", Verdict.OK, target.url)
    yield _encryption(target)
    with client:
        yield from _server(client)


def _file(target: Target) -> Iterator[Check]:
    file = target.token_file
    if file is None:
        return
    if target.was_open:
        found = f"others could read your token in {file}; now only you can"
        do = "If they are not to be trusted, revoke it: better-compute tokens revoke"
        yield Check("settings.private", Verdict.WARNING, found, do)
    else:
        yield Check("settings.private", Verdict.OK, file)


def _encryption(target: Target) -> Check:
    if is_protected(target.url):
        return Check("settings.encrypted", Verdict.OK, "nobody on the way can read the token")
    do = "Use the server's https address"
    return Check("settings.encrypted", Verdict.WARNING, "the token is sent unencrypted", do)


def _server(client: "Client") -> Iterator[Check]:
    from bettercompute.client.failures import Unreachable

    asked_at_ms = times.to_ms(times.now())
    try:
        alive = client.probe("/healthz")
        ready = client.probe("/readyz")
    except Unreachable as error:
        do = "Check the address and the network; on this machine: better-compute up"
        yield Check("server.reachable", Verdict.FAILED, error.detail, do)
        return
    yield Check("server.reachable", Verdict.OK, "it answers")
    yield _health("server.alive", alive, "Is this the address of Better Compute?")
    yield _health(
        "server.ready", ready, "Wait a moment; operators: look at the database and at migrations"
    )
    yield from _clock(alive, asked_at_ms=asked_at_ms)
    yield from _token(client)


def _health(name: str, answer: "Answer", do: str) -> Check:
    text = answer.body[:SHOWN_MAX].decode("utf-8", "replace")
    if answer.status == 200:
        return Check(name, Verdict.OK, text)
    return Check(name, Verdict.FAILED, f"{answer.status} {text}", do)


def _clock(answer: "Answer", *, asked_at_ms: int) -> Iterator[Check]:
    """Compare with the answer's ``Date``, which has whole seconds."""
    from bettercompute.client import calls

    answered_at_ms = calls.answered_at_ms(answer)
    if answered_at_ms is None:
        return
    difference = timedelta(seconds=round((asked_at_ms - answered_at_ms) / 1_000))
    ahead = "ahead of" if difference > timedelta() else "behind"
    message = (
        f"this machine's clock is {abs(difference).total_seconds():.0f} s {ahead} the server's"
    )
    if abs(difference) <= CLOCK_DIFFERENCE_MAX:
        yield Check("clock.difference", Verdict.OK, message)
    else:
        do = "Set this machine's clock (NTP): words such as “in 2h” are read by it"
        yield Check("clock.difference", Verdict.WARNING, message, do)


def _token(client: "Client") -> Iterator[Check]:
    from bettercompute.client import accounts
    from bettercompute.client.failures import ClientError, InvalidInput, Unauthenticated

    try:
        who = client.whoami()
        tenant_id = accounts.choose(who, client.api.tenant or "")
    except Unauthenticated as error:
        yield Check("token.valid", Verdict.FAILED, error.detail, f"Sign in again: {settings.LOGIN}")
    except InvalidInput as error:
        yield Check("token.tenant", Verdict.FAILED, error.detail, "Name one of these by --tenant")
    except ClientError as error:
        yield Check("token.valid", Verdict.FAILED, error.detail, "Try again in a moment")
    else:
        seat = next(each for each in who.tenants if each.id == tenant_id)
        yield Check("token.valid", Verdict.OK, f"{who.username}, {seat.role} of {seat.name}")
        if who.operator:
            yield from _system(client)


def _system(client: "Client") -> Iterator[Check]:
    """What the server finds wrong with the system, each by its own name."""
    from bettercompute.client.failures import ClientError

    try:
        found = client.operating.self_check()
    except ClientError as error:
        yield Check("system.checked", Verdict.WARNING, error.detail, "Try again in a moment")
        return
    looked = f"{len(found.checks)} checks, {found.age_ms / 1_000:.0f} s ago"
    kept = sum(each.ok for each in found.checks)
    yield Check("system.checked", Verdict.OK, f"{looked}: {kept} are well")
    for result in found.checks:
        for finding in result.findings:
            yield Check(result.check, Verdict.FAILED, finding.message, finding.do)
