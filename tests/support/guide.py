"""Runs what a guide shows: its ``bash`` blocks against the product, its ``python`` as it is.

Of the shell only what a guide needs: commands of ours, ``name=$(…)``, ``$name``, ``> file``,
``< file``, ``| head -n 1`` and ``export``. A line that is none of these fails, so nothing is shown
that is not run. ``# exits with 5`` after a command is checked. Comments that a reader does not see
say who acts and what happens meanwhile: ``<!-- as olga -->``, ``<!-- meanwhile: bind $id -->``.
"""

import io
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.terminal import Terminal

SERVER = "https://compute.example.org"
PROGRAMS = ("better-compute", ".venv/bin/better-compute")

FIRST = ["|", "head", "-n", "1"]

_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$|^<!-- (.*?) -->$", re.MULTILINE | re.DOTALL)
_ASSIGNED = re.compile(r"(\w+)=\$\((.*)\)\Z")
_EXPORTED = re.compile(r"export (\w+)=(\S+)\Z")
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")
_EXITS = re.compile(r"# exits with (\d+)")


@dataclass(frozen=True, slots=True)
class Block:
    """Something that a guide shows, or a word to whoever runs it."""

    kind: str
    text: str


def blocks(page: str) -> Iterator[Block]:
    """In the order of the page."""
    for found in _FENCE.finditer(page):
        yield Block("note", found[3]) if found[3] else Block(found[1], found[2])


@dataclass
class Reader:
    """Somebody who types what the guide shows."""

    terminal: Terminal
    directory: Path
    variables: dict[str, str] = field(default_factory=dict)
    scope: dict[str, Any] = field(default_factory=dict)
    commands: int = 0

    def read(self, page: str) -> None:
        """Do all of it."""
        page = page.replace(SERVER, self.terminal.url)
        for block in blocks(page):
            match block.kind:
                case "bash":
                    for line in _lines(block.text):
                        self.line(line)
                case "python":
                    exec(compile(block.text, "guide", "exec"), self.scope)
                case "note":
                    self._note(block.text)

    def line(self, line: str) -> None:
        """One line of a shell."""
        expected = _EXITS.search(line)
        code = int(expected[1]) if expected else 0
        if found := _EXPORTED.match(line):
            self.terminal.monkeypatch.setenv(found[1], self._expanded(found[2]))
        elif found := _ASSIGNED.match(line.partition(" #")[0].rstrip()):
            self.variables[found[1]] = self._run(found[2], code).strip()
        else:
            self._run(line, code)

    def _run(self, line: str, code: int) -> str:
        words = [self._expanded(word) for word in shlex.split(line, comments=True)]
        assert words[0] in PROGRAMS, f"nothing runs this: {line}"
        words, target = _without(words, ">")
        words, source = _without(words, "<")
        if words[-4:] == FIRST:
            return self._run(line.replace(" ".join(FIRST), ""), code).partition("\n")[0]
        if source is not None:
            typed = io.StringIO((self.directory / source).read_text())
            self.terminal.monkeypatch.setattr(sys, "stdin", typed)
        done = self.terminal.invoke(words[1:])
        assert done.code == code, f"{line}\n{done.out}{done.err}"
        if target is not None:
            (self.directory / target).write_text(done.out)
        self.commands += 1
        return done.out

    def _note(self, text: str) -> None:
        if text.startswith("as "):
            self.terminal.become(text.removeprefix("as "))
        elif text.startswith("meanwhile: "):
            self.terminal.meanwhile(self._expanded(text.removeprefix("meanwhile: ")))

    def _expanded(self, word: str) -> str:
        return _VARIABLE.sub(lambda found: self.variables[found[1]], word)


def _lines(text: str) -> Iterator[str]:
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip() and not line.strip().startswith("#"):
            yield line.strip()


def _without(words: list[str], sign: str) -> tuple[list[str], str | None]:
    """The words without a redirection, and where that goes."""
    if sign not in words:
        return words, None
    at = words.index(sign)
    return [*words[:at], *words[at + 2 :]], words[at + 1]
