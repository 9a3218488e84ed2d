"""One form for what ``nvidia-smi -q`` says, whether it came as XML or as indented text."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

# More than any host prints; what is larger was not printed by nvidia-smi.
DEPTH_MAX = 32
SECTIONS_MAX = 500_000

_ABSENT = re.compile(
    r"\[?(n/a|not supported|not available|insufficient permissions|redacted"
    r"|requested functionality has been deprecated|unknown)?\]?",
    re.IGNORECASE,
)
_BROKEN = re.compile(
    r"err!|unknown error|gpu is lost|gpu requires reset|fallen off the bus", re.IGNORECASE
)
_COUNT = re.compile(r"\s*(\d{1,15})(?![\d.])", re.ASCII)
_NOT_PRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
_VALUE_CHARS_MAX = 255


@dataclass(slots=True)
class Section:
    """A named value, a group of named values, or (rarely) both."""

    name: str
    value: str = ""
    children: list["Section"] = field(default_factory=list)

    def all(self, name: str) -> Iterator["Section"]:
        """The direct children of this name."""
        return (child for child in self.children if child.name == name)

    def at(self, path: str) -> "Section | None":
        """The first descendant at ``a/b/c``."""
        here: Section | None = self
        for name in path.split("/"):
            here = next(here.all(name), None) if here else None
        return here

    def say(self, *paths: str) -> str:
        """What is written at the first of these paths that exists; else an empty string."""
        for path in paths:
            found = self.at(path)
            if found is not None:
                return printable(found.value)
        return ""

    def text(self, *paths: str) -> str | None:
        """As `say`, but None where the driver says that there is nothing to say."""
        said = self.say(*paths)
        return None if is_absent(said) or is_broken(said) else said

    def count(self, *paths: str) -> int | None:
        """The whole number at the first of these paths, without its unit."""
        match = _COUNT.match(self.say(*paths))
        return int(match[1]) if match else None

    def leaves(self, prefix: str = "") -> Iterator[tuple[str, str]]:
        """Every (path, value) below this section, in order."""
        stack = [(prefix, child) for child in reversed(self.children)]
        while stack:
            above, section = stack.pop()
            path = f"{above}/{section.name}" if above else section.name
            if section.value:
                yield path, printable(section.value)
            stack.extend((path, child) for child in reversed(section.children))


def printable(text: str) -> str:
    """A driver's word, safe to store and show: one line, no control characters, bounded."""
    return _NOT_PRINTABLE.sub(" ", text).strip()[:_VALUE_CHARS_MAX]


def is_absent(said: str) -> bool:
    """Whether the driver has no value here, in any of the ways it says so."""
    return _ABSENT.fullmatch(said) is not None


def is_broken(said: str) -> bool:
    """Whether the driver could not reach the card for this value."""
    return _BROKEN.search(said) is not None
