"""What a person or a program reads: one document on stdout, everything else on stderr."""

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import IO, Any

import click

WIDTH_MAX = 10_000  # a pipe has no width: nothing is wrapped or cut for it


class Format(StrEnum):
    """How the document looks."""

    TABLE = "table"
    JSON = "json"
    ID = "id"


@dataclass(frozen=True, slots=True)
class Cell:
    """A text and the colour it has where there are colours."""

    text: str
    colour: str | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headings."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    empty: str  # what is said where there are no rows


@dataclass(frozen=True, slots=True)
class Shown:
    """One result in its three forms."""

    document: Any  # JSON, or a model of the wire
    ids: Sequence[str]
    human: Sequence[str | Table]


@dataclass(slots=True)
class Output:
    """The two streams, and what was asked of them."""

    format: Format = Format.TABLE
    quiet: bool = False
    is_asked: bool = False  # the command line says which format
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def ask(self, wanted: Format) -> None:
        """Print in this format, whatever the context prefers."""
        self.format, self.is_asked = wanted, True

    def show(self, shown: Shown) -> None:
        """Print the document."""
        match self.format:
            case Format.JSON:
                click.echo(json.dumps(_plain(shown.document), indent=2, ensure_ascii=False))
            case Format.ID:
                for identifier in shown.ids:
                    click.echo(printable(identifier))
            case Format.TABLE:
                for part in shown.human:
                    self._print(part)

    @property
    def notes(self) -> bool:
        """Whether hints are printed."""
        return not self.quiet and self.format is Format.TABLE

    def note(self, text: str) -> None:
        """A hint for people; never part of the document."""
        if self.notes:
            click.echo(printable(text), err=True)

    def warn(self, text: str) -> None:
        """Something that is to be known in every format."""
        click.echo(printable(f"Warning: {text}"), err=True)

    def fail(self, message: str, *, advice: Sequence[str] = (), **document: Any) -> None:
        """An error: for programs one JSON document, on stderr as well."""
        if self.format is Format.JSON:
            told = {**document, "detail": message, "next": list(advice)}
            click.echo(json.dumps({"error": told}, ensure_ascii=False), err=True)
            return
        heading = click.style("Error:", fg="red") if self.has_colour(sys.stderr) else "Error:"
        click.echo(f"{heading} {printable(message)}", err=True, color=True)
        for line in advice:
            click.echo(f"  {printable(line)}", err=True)

    @contextlib.contextmanager
    def progress(self, text: str) -> Iterator[Callable[[str], None]]:
        """A sign of life while something takes its time; what it gives says how far it is."""
        if self.quiet or self.format is not Format.TABLE:
            yield lambda _: None
        elif not self.has_colour(sys.stderr):
            yield _teller(text)
        else:
            from rich.console import Console
            from rich.text import Text

            begun = time.monotonic()
            with Console(stderr=True).status(f"{text} …") as status:
                yield lambda more: status.update(
                    Text(f"{text} … {printable(more)} ({time.monotonic() - begun:.0f} s)")
                )

    def has_colour(self, stream: IO[str]) -> bool:
        """Whether a person with a capable terminal reads this stream."""
        wanted = not self.environ.get("NO_COLOR") and self.environ.get("TERM") != "dumb"
        return wanted and stream.isatty()

    def _print(self, part: str | Table) -> None:
        if isinstance(part, str):
            click.echo(part)
        elif not part.rows:
            click.echo(part.empty)
        else:
            self._print_table(part)

    def _print_table(self, table: Table) -> None:
        from rich.console import Console
        from rich.table import Table as RichTable
        from rich.text import Text

        colour = self.has_colour(sys.stdout)
        console = Console(
            file=sys.stdout,
            color_system="auto" if colour else None,
            width=None if sys.stdout.isatty() else WIDTH_MAX,
            highlight=False,
            markup=False,
            emoji=False,
        )
        drawn = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for name in table.columns:
            drawn.add_column(name, overflow="fold")
        for row in table.rows:
            cells = [each if isinstance(each, Cell) else Cell(each) for each in row]
            drawn.add_row(*(Text(printable(cell.text), cell.colour or "") for cell in cells))
        with console.capture() as captured:
            console.print(drawn)
        lines = [line.rstrip() for line in captured.get().splitlines()]
        click.echo("\n".join(lines), color=colour)


def _teller(text: str) -> Callable[[str], None]:
    """Says on a line of its own what has not been said yet."""
    click.echo(f"{text} …", err=True)
    said = ""

    def tell(more: str) -> None:
        nonlocal said
        if more != said:
            said = more
            click.echo(f"  {printable(more)}", err=True)

    return tell


def facts(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Named facts under one another, their values aligned."""
    told = [(name, value) for name, value in pairs if value]
    width = max((len(name) for name, _ in told), default=0)
    return [f"  {name:<{width}}  {printable(value)}" for name, value in told]


def printable(text: str) -> str:
    """Text from elsewhere, unable to steer the terminal."""
    return "".join(each if each.isprintable() or each in "\n\u00a0" else "\ufffd" for each in text)


def _plain(document: Any) -> Any:
    if hasattr(document, "model_dump"):
        return document.model_dump(mode="json", by_alias=True)
    if isinstance(document, Mapping):
        return {name: _plain(value) for name, value in document.items()}
    if isinstance(document, list | tuple):
        return [_plain(each) for each in document]
    return document
