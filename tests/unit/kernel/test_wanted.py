"""Devices that are asked for, in words."""

import pytest

from bettercompute import wanted


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ({"class": "gpu", "count": 1}, "1 GPU"),
        ({"class": "gpu", "count": {"min": 2, "max": 4}}, "2 to 4 GPUs"),
        ({"class": "gpu.mig", "count": 2, "profile": "1g.10gb"}, "2 MIG 1g.10gb instances"),
        ({"class": "gpu.slot", "count": 3}, "3 GPU slots"),
        ({"class": "gpu", "count": 1, "selector": {"model": "A100"}}, "1 × A100"),
        (
            {
                "class": "gpu.mig",
                "count": 1,
                "profile": "1g.10gb",
                "selector": [
                    {"key": "model", "op": "in", "values": ["A100", "H100"]},
                    {"key": "memoryGiB", "op": ">=", "value": 40},
                    {"key": "driver", "op": ">=", "value": "550"},
                    {"key": "z", "op": "!=", "value": "eu"},
                ],
            },
            "1 × A100 or H100 1g.10gb (40 GiB or more, driver 550 or later, label z other than eu)",
        ),
        (
            {"anyOf": [{"class": "gpu", "count": 2}, {"class": "gpu.slot", "count": 1}]},
            "2 GPUs or 1 GPU slot",
        ),
    ],
)
def test_a_line_is_told_in_words(line, told):
    assert wanted.line(line) == told


def test_a_model_that_is_asked_for_comes_before_the_only_one_there_is():
    asked = [{"key": "model", "op": "=", "value": "A100"}]
    line = {"class": "gpu", "count": 1}
    assert wanted.line(line, model_of=lambda _: "H100") == "1 × H100"
    assert wanted.line({**line, "selector": asked}, model_of=lambda _: "H100") == "1 × A100"


def test_a_condition_on_a_label_is_written_as_labels_are():
    assert wanted.term("zone", "in", ["eu", "us"]) == "label zone=eu or us"
    assert wanted.term("fast", "exists", ()) == "label fast"
