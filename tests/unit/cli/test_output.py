"""The document, the hints, and what a terminal may be told."""

import contextlib
import io
import json
import os
import pty
import sys
from typing import IO

import pytest

from bettercompute.cli import output
from bettercompute.cli.output import Cell, Format, Output, Shown, Table
from bettercompute.wire.pools import Quota

TABLE = Table(("NAME", "STATE"), [("main", Cell("ok", "green")), ("a-longer-name", "bad")], "None.")
QUOTA = Quota(resource="gpuMilli", used=1, max=2)
SHOWN = Shown(document={"items": [QUOTA]}, ids=["one", "two"], human=["Found:", TABLE])


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_people_read_aligned_columns(capsys: pytest.CaptureFixture[str]) -> None:
    Output().show(SHOWN)
    assert capsys.readouterr().out == (
        "Found:\nNAME           STATE\nmain           ok\na-longer-name  bad\n"
    )


@pytest.mark.rule("A8")
def test_programs_read_one_document_in_the_words_of_the_wire(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Output(format=Format.JSON).show(SHOWN)
    (item,) = json.loads(capsys.readouterr().out)["items"]
    assert (item["resource"], item["used"], item["max"]) == ("gpuMilli", 1, 2)
    assert (item["scope"], item["poolId"], item["poolOfferId"]) == ("tenant", None, None)


def test_scripts_read_one_id_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    Output(format=Format.ID).show(SHOWN)
    assert capsys.readouterr().out == "one\ntwo\n"


def test_an_empty_table_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    Output().show(Shown({}, [], [Table(("NAME",), [], "No pools.")]))
    assert capsys.readouterr().out == "No pools.\n"


def test_a_long_row_is_neither_wrapped_nor_cut_in_a_pipe(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Output().show(Shown({}, [], [Table(("A", "B"), [("x" * 300, "y" * 300)], "")]))
    assert f"{'x' * 300}  {'y' * 300}" in capsys.readouterr().out


@pytest.mark.parametrize("format_", [Format.JSON, Format.ID])
def test_hints_are_for_people_only(format_: Format, capsys: pytest.CaptureFixture[str]) -> None:
    out = Output(format=format_)
    out.note("Next: …")
    with out.progress("Waiting"):
        pass
    assert capsys.readouterr() == ("", "")


def test_quiet_leaves_the_document_and_the_errors(capsys: pytest.CaptureFixture[str]) -> None:
    out = Output(quiet=True)
    out.note("Next: …")
    with out.progress("Waiting"):
        out.show(Shown({}, [], ["done"]))
    out.fail("broken")
    assert capsys.readouterr() == ("done\n", "Error: broken\n")


def test_hints_and_progress_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    out = Output()
    out.note("Next: look")
    with out.progress("Waiting"):
        pass
    assert capsys.readouterr() == ("", "Next: look\nWaiting …\n")


def test_an_error_is_a_document_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    Output(format=Format.JSON).fail("broken", advice=["mend it"], code="X", status=409)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert json.loads(captured.err) == {
        "error": {"code": "X", "status": 409, "detail": "broken", "next": ["mend it"]}
    }


@pytest.mark.parametrize(
    ("environ", "coloured"),
    [
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "dumb"}, False),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True),  # no-color.org: empty does not count
    ],
)
def test_colours_only_on_a_terminal_that_wants_them(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], coloured: bool
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    Output(environ=environ).show(SHOWN)
    assert ("\x1b[" in terminal.getvalue()) is coloured
    assert not Output(environ=environ).has_colour(io.StringIO())


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("plain ünïcode × –", "plain ünïcode × –"),
        ("\x1b[31mred\x1b]0;title\x07", "�[31mred�]0;title�"),
        ("a\rb\x08\x9b", "a�b��"),
        ("\u202eevil", "�evil"),
    ],
)
def test_text_from_elsewhere_cannot_steer_the_terminal(given: str, shown: str) -> None:
    assert output.printable(given) == shown


def test_a_name_from_elsewhere_is_neither_markup_nor_control(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Output().show(Shown({}, [], [Table(("NAME",), [("[red]x[/red]\x1b[2J:smile:",)], "")]))
    assert capsys.readouterr().out == "NAME\n[red]x[/red]�[2J:smile:\n"


def test_facts_are_aligned_and_empty_ones_left_out() -> None:
    assert output.facts([("Pool", "main"), ("Reason", ""), ("Devices", "4")]) == [
        "  Pool     main",
        "  Devices  4",
    ]


def _all_of(seen: IO[bytes]) -> bytes:
    """What a terminal was written, which the kernel hands on in parts; then it is gone (EIO)."""
    read = b""
    with contextlib.suppress(OSError):
        while part := seen.read(65_536):
            read += part
    return read


def test_on_a_terminal_one_line_is_kept_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    master, slave = pty.openpty()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with os.fdopen(master, "rb", buffering=0) as seen:
        with os.fdopen(slave, "w") as terminal:
            monkeypatch.setattr(sys, "stderr", terminal)
            with Output().progress("Waiting up to 20 s") as say:
                say("2 of 3 in line")
                say("getting its devices\x1b[2J")
        shown = _all_of(seen).decode()
    # What is told cannot steer the terminal.
    assert "Waiting up to 20 s … getting its devices\ufffd[2J (0 s)" in shown
    assert shown.endswith("\x1b[2K"), "in the end the line is wiped"
