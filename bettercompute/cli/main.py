"""`better-compute`: the command line.

Exit codes: 0 ok, 1 error, 2 usage, 3 not authenticated, 4 denied, 5 no capacity, conflict or quota,
6 not found, 7 timed out waiting, 130 interrupted.
"""

import itertools
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from bettercompute.cli import shells  # noqa: F401  (click completes by them)
from bettercompute.cli.exits import Exit
from bettercompute.cli.lazy import Entry, LazyGroup
from bettercompute.cli.output import Format
from bettercompute.cli.session import Session

EPILOGUE = (
    "Exit codes: 0 ok, 1 error, 2 usage, 3 not authenticated, 4 denied, 5 no capacity, conflict or "
    "quota, 6 not found, 7 timed out waiting, 130 interrupted."
)

#: Every command, where it is, and the first sentence of its help.
SECTIONS = {
    "Reservations": {
        "reserve": Entry("reserve", "reserve", "Reserve GPUs of a pool for a time."),
        "get": Entry("reserve", "get", "Show a reservation, and how to use it."),
        "list": Entry("reserve", "list_", "List reservations, newest first."),
        "extend": Entry(
            "extend",
            "extend",
            "Make a reservation longer; without --by and --until, say until when it could go.",
        ),
        "renew": Entry(
            "extend",
            "renew",
            "Renew the lease of a reservation made with --lease, so that it does not lapse.",
        ),
        "release": Entry("reserve", "release", "End a reservation now and give its devices back."),
        "cancel": Entry("reserve", "cancel", "Withdraw a reservation that has not started."),
        "users": Entry(
            "sharing", "users", "Let members of your tenant use a reservation, or no more."
        ),
        "series": Entry(
            "series",
            "series",
            "Recurring reservations: each occurrence is a reservation of its own.",
        ),
        "watch": Entry(
            "events", "watch", "Say what happens, as it happens, until it is interrupted."
        ),
        "confirmations": Entry(
            "confirmations", "confirmations", "What agents that act for you ask you to confirm."
        ),
        "feeds": Entry("feeds", "feeds", "Addresses that a calendar program reads by itself."),
    },
    "What there is": {
        "capacity": Entry(
            "fleet",
            "capacity",
            "Whether a reservation would fit, and if not, why; or which ways there are to have it.",
        ),
        "pools": Entry("pools", "pools", "Pools that you may book."),
        "nodes": Entry(
            "nodes", "nodes", "Machines with devices, for operators and owners of pools."
        ),
        "maintenance": Entry(
            "maintenance",
            "maintenance",
            "Planned work on nodes and pools, which new bookings keep clear of.",
        ),
    },
    "Your tenant": {
        "quotas": Entry(
            "account", "quotas", "Show what your tenant holds of each resource, and may hold."
        ),
        "budgets": Entry(
            "spending",
            "budgets",
            "What is left of your tenant's budgets, this month or in their window.",
        ),
        "usage": Entry(
            "spending",
            "usage",
            "How many GPU-hours your tenant's reservations had, and how many of them idle.",
        ),
        "policies": Entry(
            "policy",
            "policies",
            "Who may reserve what: policies that bind, shipped examples, and trying one before it "
            "binds.",
        ),
        "events": Entry("events", "events", "List what happened, newest first."),
        "members": Entry(
            "account",
            "members",
            "List who can act for your tenant: those a reservation can be shared with.",
        ),
        "audit": Entry(
            "audit",
            "audit",
            "Who did what at your tenant, from where, and what was refused; for admins.",
        ),
        "tokens": Entry("tokens", "tokens", "API tokens, each for one tenant and in your name."),
        "webhooks": Entry("webhooks", "webhooks", "Receivers that are sent events as they happen."),
    },
    "This machine": {
        "login": Entry("login", "login", "Sign in at a server with an API token."),
        "context": Entry(
            "context", "context", "Servers and identities under names, to go between."
        ),
        "whoami": Entry(
            "account",
            "whoami",
            "Show who your token stands for, and the tenants you may act for.",
        ),
        "doctor": Entry(
            "doctor", "doctor", "Check settings, server, token and clock, and say what to do."
        ),
        "completion": Entry(
            "completion",
            "completion",
            "Print what makes a shell complete commands, options, names and ids.",
        ),
        "up": Entry(
            "up",
            "up",
            "Run everything on this machine: database, web, gateway, worker and simulated nodes.",
        ),
    },
    "For operators": {
        "leases": Entry(
            "fleet", "leases", "Who is in charge of what in the control plane, since when."
        ),
    },
}
#: Earlier names, which still work.
ALIASES = {"budget": "budgets", "policy": "policies"}


@click.group(
    cls=LazyGroup,
    sections=SECTIONS,
    aliases=ALIASES,
    name="better-compute",
    epilog=EPILOGUE,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="bettercompute", prog_name="better-compute")
def cli() -> None:
    """Reserve GPUs, see them, and give them back."""


def main() -> None:
    """Run the command line and exit."""
    _open_what_is_closed()
    sys.exit(run(sys.argv[1:]))


def _open_what_is_closed() -> None:
    """A shell's ``>&-`` leaves no stream, and its number to the next file that is opened."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115  (to the end)
            setattr(sys, name, stream)


def run(arguments: Sequence[str]) -> int:
    """Run a command and answer its exit code; whatever went wrong is said on stderr."""
    session = Session()
    try:
        _require_text(arguments)
        answered = cli.main(
            list(arguments), prog_name="better-compute", standalone_mode=False, obj=session
        )
    except click.ClickException as error:
        if session.out.format is Format.JSON or _wants_json(arguments):
            session.out.format = Format.JSON
            session.out.fail(error.format_message(), code="USAGE")
        else:
            error.show()
        return error.exit_code
    except Exception as error:  # noqa: BLE001  (the edge: a person gets words, no traceback)
        from bettercompute.cli import explaining

        return explaining.explain(session, error)
    return answered if isinstance(answered, int) else Exit.OK


def _wants_json(arguments: Sequence[str]) -> bool:
    """What click does not know keeps it from reading the options around it."""
    return (
        "--json" in arguments
        or f"--output={Format.JSON}" in arguments
        or ("--output", Format.JSON) in itertools.pairwise(arguments)
    )


def _require_text(arguments: Sequence[str]) -> None:
    """Python passes bytes that are no UTF-8 on as lone surrogates, which no request can carry."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError as error:
            raise click.UsageError(f"{argument!a} is not valid UTF-8.") from error


if __name__ == "__main__":
    main()
