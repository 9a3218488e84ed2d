"""What every command prints, for people and for programs, and how it exits.

`make golden` writes the files of `golden/` anew; a review reads what changed in them.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from bettercompute.cli import main
from tests.support import transcripts
from tests.support.terminal import Terminal
from tests.support.transcripts import Step

GOLDEN = Path(__file__).parent / "golden"

#: Commands that have no place in a session, and where they are tested.
ELSEWHERE = {
    "login": "asks at a terminal: tests/unit/cli/test_login.py",
    "completion": "prints a script for a shell: tests/unit/cli/test_completion.py",
    "leases": "has a row for each job of the control plane: tests/unit/cli/test_fleet.py",
    "webhooks test": "takes as long as it takes: tests/unit/cli/test_webhooks.py",
    "up": "never ends: tests/faults/embedded",
}


@pytest.mark.rule("A8")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("session", sorted(path.stem for path in GOLDEN.glob("*.txt")))
def test_a_session_prints_what_it_printed(terminal: Terminal, session: str) -> None:
    file = GOLDEN / f"{session}.txt"
    golden = file.read_text(encoding="utf-8")
    printed = transcripts.replay(
        golden, run=terminal.run, world=terminal.meanwhile, names=terminal.names
    )
    if os.environ.get("GOLDEN") == "write":
        file.write_text(printed, encoding="utf-8")
        return
    assert printed.splitlines() == golden.splitlines()


@pytest.mark.rule("A8")
def test_every_command_is_in_a_session_for_people_and_for_programs() -> None:
    shown = {True: set[str](), False: set[str]()}
    for path in GOLDEN.glob("*.txt"):
        for step in transcripts.steps(path.read_text(encoding="utf-8")):
            if isinstance(step, Step) and step.is_command:
                _, words = transcripts.command(step.line)
                shown["--json" in words].add(_name(words))
    expected = set(_names(main.cli)) - set(ELSEWHERE)
    assert expected - shown[False] == set()
    assert expected - shown[True] == set()


def _names(group: click.Group, before: str = "") -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _names(command, f"{before}{name} ")
        else:
            yield f"{before}{name}"


def _name(words: list[str]) -> str:
    """The command that these words run."""
    command: click.Command | None = main.cli
    names: list[str] = []
    for word in words:
        if not isinstance(command, click.Group):
            break
        found = command.get_command(click.Context(command), word)
        if found is None:  # what a collection does by itself: list them, or show one
            names.append("list" if word.startswith("-") else getattr(command, "one", ""))
            break
        command = found
        names.append(word)
    else:
        names += ["list"] if isinstance(command, click.Group) else []
    return " ".join(names)
