"""The codes of the wire are the same in code and documentation."""

import re
from pathlib import Path

import pytest

from bettercompute import errors

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"


@pytest.mark.rule("A3")
def test_the_page_lists_every_code_with_its_status() -> None:
    listed = re.findall(r"^\| `([A-Z_]+)` \| (\d{3}) \|", PAGE.read_text(), re.MULTILINE)
    assert listed == [(code.code, str(code.status)) for code in errors.ALL]
