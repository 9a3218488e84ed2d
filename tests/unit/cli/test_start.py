"""How the program starts, and what it says of itself."""

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from bettercompute.cli import main
from bettercompute.cli.exits import Exit
from tests.unit.cli.conftest import Run

ROOT = Path(__file__).parents[3]
HEAVY = ("django", "httpx2", "rich", "asyncio", "psycopg")


@pytest.mark.rule("A8")
@pytest.mark.parametrize(
    ("arguments", "unneeded"),
    [
        (["--help"], (*HEAVY, "pydantic", "bettercompute.client")),
        (["--version"], (*HEAVY, "pydantic", "bettercompute.client")),
        (["reserve", "--help"], HEAVY),
    ],
)
def test_help_loads_nothing_that_it_does_not_need(
    arguments: list[str], unneeded: tuple[str, ...]
) -> None:
    program = (
        "import sys; from bettercompute.cli import main; code = main.run(sys.argv[1:]); "
        f"print('loaded', [name for name in {unneeded!r} if name in sys.modules]); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "better-compute" in done.stdout
    assert "loaded []" in done.stdout
    assert done.stderr == ""


def test_an_argument_that_is_no_utf_8_is_said(run: Run) -> None:
    refused = run("reserve", "--offer", os.fsdecode(b"cof_\xff"))
    assert refused.code == Exit.USAGE
    assert r"'cof_\udcff' is not valid UTF-8." in refused.err


def test_the_program_is_installed_under_its_name() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["scripts"]["better-compute"] == "bettercompute.cli.main:main"


def test_help_lists_every_command_and_the_exit_codes(run: Run) -> None:
    result = run("--help")
    assert result.code == 0
    for name in main.cli.list_commands(click.Context(main.cli)):
        assert f"\n  {name} " in result.out
    assert "7 timed out waiting" in " ".join(result.out.split())


def test_the_list_of_commands_says_what_each_says_of_itself() -> None:
    context = click.Context(main.cli)
    for section in main.SECTIONS.values():
        for name, entry in section.items():
            command = main.cli.get_command(context, name)
            assert command is not None
            assert entry.about == command.get_short_help_str(limit=200), name
            assert command.name == name


@pytest.mark.parametrize("earlier", main.ALIASES)
def test_an_earlier_name_still_works(run: Run, earlier: str) -> None:
    assert run(earlier, "--help").code == 0


def commands(group: click.Group, before: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, with its whole name."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def test_every_command_but_up_can_answer_a_program() -> None:
    for name, command in commands(main.cli):
        options = {each for param in command.params for each in param.opts}
        assert name == "up" or {"--json", "--output", "--quiet"} <= options, name


def test_no_option_takes_a_secret() -> None:
    for name, command in commands(main.cli):
        for param in command.params:
            words = set((param.name or "").split("_"))
            if words & {"token", "secret", "password"} and "id" not in words:
                assert isinstance(param, click.Option), name
                assert param.is_flag, name


def test_the_shell_is_told_how_to_complete() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bettercompute.cli.main"],
        cwd=ROOT,
        env={
            "_BETTER_COMPUTE_COMPLETE": "bash_complete",
            "COMP_WORDS": "better-compute re",
            "COMP_CWORD": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["plain,reserve", "plain,renew", "plain,release"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["reserve", "--gpus", "4"],
        ["reserve", "--pool", "main", "--gpus", "4", "--for", "8"],
        ["reserve", "--pool", "main", "--gpus", "0", "--for", "8h"],
        ["reserve", "--pool", "main", "--gpus", "4", "--for", "8h", "--start", "some day"],
        ["reserve", "--pool", "main", "--gpus", "4", "--for", "8h", "--memory", "much"],
        ["reserve", "--pool", "main", "--gpus", "4", "--for", "8h", "--key", "k" * 256],
        ["capacity", "--pool", "main", "--gpus", "4", "--for", "8h"],
        ["get"],
        ["list", "--state", "draft"],
        ["list", "--output", "yaml"],
    ],
)
@pytest.mark.rule("A8")
def test_a_mistake_on_the_command_line_is_usage_and_stays_off_stdout(
    run: Run, arguments: list[str]
) -> None:
    result = run(*arguments)
    assert result.code == 2
    assert result.out == ""
    assert "Error:" in result.err
