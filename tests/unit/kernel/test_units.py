"""Amounts as people read them."""

import pytest

from bettercompute import units


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("gpuMilli", 1_000, "1 GPU"),
        ("gpuMilli", 4_000, "4 GPUs"),
        ("gpuMilli", 142, "0.142 GPUs"),
        ("gpuMilli", 1_500, "1.5 GPUs"),
        ("gpuMilli", 0, "0 GPUs"),
        ("gpuMilli", 2**63 - 1, "9,223,372,036,854,775.807 GPUs"),
        ("gpuMilli", -1_050, "-1.05 GPUs"),
        ("vcpu", 1, "1 CPU"),
        ("vcpu", 48, "48 CPUs"),
        ("memoryGiB", 1_024, "1,024 GiB of memory"),
        ("licences", 7, "7 licences"),
    ],
)
def test_an_amount_is_exact_and_in_words(resource: str, amount: int, text: str) -> None:
    assert units.text(resource, amount) == text


def test_a_column_is_called_as_people_call_it() -> None:
    assert [units.named(each) for each in ("gpuMilli", "vcpu", "licences")] == [
        "GPUs",
        "CPUs",
        "licences",
    ]
