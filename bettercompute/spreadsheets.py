"""Rows as lines for a spreadsheet, in which every text stays a text."""

import csv
import io
from collections.abc import Iterable, Sequence

Cell = str | int | float

# What spreadsheets take for a formula at the beginning of a cell, or leave out before it. Some
# take the wide signs of East Asian keyboards, too.
_FORMULA = (*"=+-@", *"\t\r\n", *"\uff1d\uff0b\uff0d\uff20")


def written(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """Comma-separated lines below a line of headings."""
    return "".join([line(columns), *map(line, rows)])


def line(cells: Sequence[Cell]) -> str:
    """One line, whose texts are taken for words whatever they begin with."""
    out = io.StringIO()
    csv.writer(out).writerow([_plain(cell) for cell in cells])
    return out.getvalue()


def _plain(cell: Cell) -> Cell:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell
