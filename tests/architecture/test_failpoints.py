"""Each failpoint is reached by the product and used by a test."""

from pathlib import Path

import pytest

from bettercompute.failpoints import Failpoint

ROOT = Path(__file__).resolve().parents[2]


def _texts(*folders):
    return "\n".join(
        path.read_text(encoding="utf-8")
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        if path != Path(__file__) and path.name != "failpoints.py"
    )


PRODUCT = _texts("bettercompute", "outbox", "nodes", "pools", "reservations")
TESTS = _texts("tests")


@pytest.mark.parametrize("point", Failpoint)
def test_a_failpoint_is_reached_and_used(point):
    assert f"Failpoint.{point.name}" in PRODUCT
    assert f"Failpoint.{point.name}" in TESTS
