"""Sessions at a terminal as text files: commands, what they print, and how they exit.

    # words for readers
    $ better-compute pools                  a command; WHO=alice before it: as one of the cast
    what it prints on stdout
    ! what it prints on stderr
    [exit 5]                                unless it is 0
    % bind <rsv-1>                          something the world does meanwhile

Ids, keys and secrets differ from run to run, so they stand as ``<rsv-1>``, numbered as they appear,
and a command may name them so.
"""

import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

_UNSTEADY = re.compile(
    r"(?P<gpu>GPU-[0-9a-f-]{36})"
    r"|(?P<secret>whsec_[A-Za-z0-9+/=]+)"
    r"|\b(?P<id>[a-z]{2,6}_[0-9a-z]{20,}(?:_[0-9a-zA-Z]+)?)\b"
    r"|\b(?P<digest>[0-9a-f]{64})\b"
    r"|\b(?P<key>[0-9a-f]{32})\b"
    r"|(?<=better-compute-python/)(?P<version>[0-9][\w.+-]*)"
    r"|(?P<server>https?://(?:localhost|127\.0\.0\.1):\d+)"
    r"|(?P<cursor>\b[A-Za-z0-9_=-]{60,})"
)
_NAMED = re.compile(r"<[a-z]+-\d+>|<server>|<home>")
_GAPS = re.compile(r"(?<=\S) {2,}(?=\S)")


@dataclass(frozen=True, slots=True)
class Step:
    """One line that is done, and what came of it."""

    line: str
    expected: tuple[str, ...] = ()

    @property
    def is_command(self) -> bool:
        """Whether it is one of the command line, not of the world."""
        return self.line.startswith("$ ")


@dataclass(frozen=True, slots=True)
class Done:
    """How a command came out."""

    code: int
    out: str
    err: str


def steps(text: str) -> Iterator[Step | str]:
    """The steps of a transcript, and the lines between them as they are."""
    line, came = None, []
    for each in text.splitlines():
        if each.startswith(("$ ", "% ")):
            if line is not None:
                yield Step(line, tuple(came))
            line, came = each, []
        elif line is not None and each and not each.startswith("# "):
            came.append(each)
        else:
            if line is not None:
                yield Step(line, tuple(came))
            line, came = None, []
            yield each
    if line is not None:
        yield Step(line, tuple(came))


@dataclass
class Names:
    """What stands for the ids of this run."""

    home: str = ""
    by_value: dict[str, str] = field(default_factory=dict)

    def steady(self, text: str) -> str:
        """The text as it is in every run."""
        if self.home:
            text = text.replace(self.home, "<home>")
        return _GAPS.sub("  ", _UNSTEADY.sub(self._name, text)).rstrip()

    def real(self, text: str) -> str:
        """The text with what the names stand for in this run."""
        values = {name: value for value, name in self.by_value.items()}
        return _NAMED.sub(lambda found: values.get(found[0], found[0]), text)

    def _name(self, found: re.Match[str]) -> str:
        value = found[0]
        if value not in self.by_value:
            self.by_value[value] = self._new_name(found)
        return self.by_value[value]

    def _new_name(self, found: re.Match[str]) -> str:
        if found["server"]:
            return "<server>"
        if found["gpu"]:
            return "<gpu>"  # which of several equal ones is taken is nobody's business
        kind = found[0].partition("_")[0] if found["id"] else str(found.lastgroup)
        number = sum(each.startswith(f"<{kind}-") for each in self.by_value.values()) + 1
        return f"<{kind}-{number}>"


def command(line: str) -> tuple[str | None, list[str]]:
    """Who runs a command, where that is said, and its words after the program's name."""
    words = shlex.split(line.removeprefix("$ "), comments=True)
    who = words.pop(0).removeprefix("WHO=") if words[0].startswith("WHO=") else None
    assert words[0] == "better-compute", line
    return who, words[1:]


def printed(done: Done, names: Names) -> list[str]:
    """What a command left, as lines of a transcript."""
    lines = [names.steady(each) for each in done.out.splitlines()]
    lines += [names.steady(f"! {each}") for each in done.err.splitlines()]
    lines = [each or "·" for each in lines]  # an empty line would end the step
    return [*lines, f"[exit {done.code}]"] if done.code else lines


def replay(
    text: str,
    *,
    run: Callable[[str | None, list[str]], Done],
    world: Callable[[str], None],
    names: Names,
) -> str:
    """The transcript with what is printed now."""
    lines: list[str] = []
    for step in steps(text):
        if isinstance(step, str):
            lines.append(step)
            continue
        lines.append(step.line)
        if step.is_command:
            lines += printed(run(*command(names.real(step.line))), names)
        else:
            world(names.real(step.line.removeprefix("% ")))
    return "\n".join(lines) + "\n"
