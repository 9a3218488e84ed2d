"""Cells of other people's words, in a file that a spreadsheet opens."""

import csv
import io

import pytest

from bettercompute import spreadsheets


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        "+1",
        "-1",
        "@A1",
        "\t=1",
        "\r=1",
        "\n=1",
        "\uff1d1",
        "\uff0b1",
        "\uff0d1",
        "\uff20A1",
    ],
)
def test_no_text_starts_a_formula(text: str) -> None:
    (row,) = csv.reader(io.StringIO(spreadsheets.line(["a", text, -1, 0.5]), newline=""))
    assert row == ["a", f"'{text}", "-1", "0.5"]


def test_a_text_stays_in_its_cell_whatever_it_has() -> None:
    cells = ['a,b"c', "two\nlines\r\n=1", "it's"]
    assert list(csv.reader(io.StringIO(spreadsheets.line(cells), newline=""))) == [cells]
