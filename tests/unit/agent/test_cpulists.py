"""CPU lists: what the kernel prints, within bounds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bettercompute.agent import cpulists


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("0", {0}),
        ("0-3", {0, 1, 2, 3}),
        ("0-1,8,10-11\n", {0, 1, 8, 10, 11}),
        ("8191", {8191}),
        ("3,1-2,2", {1, 2, 3}),
    ],
)
def test_a_list_reads_as_its_ids(text: str, ids: set[int]) -> None:
    assert cpulists.read(text) == ids


@pytest.mark.rule("R31")
@pytest.mark.parametrize(
    "text",
    [
        "8192",
        "0-8192",
        "0-99999999999",
        "5-3",
        "-1",
        "0--3",
        "0-3,",
        "0-10:2/4",
        "N/A",
        "",
        "٣",
        "0x3",
        ",".join(["0"] * 4097),
        "0," * 4000 + "0" + " " * 40_000,
    ],
)
def test_a_list_out_of_bounds_reads_as_empty(text: str) -> None:
    assert cpulists.read(text) == frozenset()


@pytest.mark.rule("R31")
def test_the_longest_list_within_bounds_is_read() -> None:
    assert cpulists.read(",".join(["7"] * 4096)) == {7}


@given(st.sets(st.integers(0, 8191), min_size=1, max_size=300))
def test_what_is_written_reads_back(ids: set[int]) -> None:
    assert cpulists.read(cpulists.write(ids)) == ids


@given(st.text(max_size=200))
def test_any_text_reads_as_ids_within_bounds(text: str) -> None:
    assert all(0 <= cpu <= cpulists.CPU_ID_MAX for cpu in cpulists.read(text))
