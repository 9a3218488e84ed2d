"""A place in line and the earliest start in the console's words."""

from datetime import UTC
from typing import Any

import pytest

from bettercompute import clock
from bettercompute.wire.waiting import Waiting
from reservations.pages import waiting_page
from reservations.pages.waiting_page import Standing
from tests.support import answers

pytestmark = [pytest.mark.rule("R24"), pytest.mark.case(35)]


def told(**changes: Any) -> Standing:
    found = Waiting.model_validate(answers.waiting(**changes))
    standing = waiting_page.standing(found, now=clock.from_ms(answers.NOW_MS), zone=UTC)
    assert standing is not None
    return standing


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({}, "2 of 3; those before it ask for 8 GPUs."),
        ({"gpusAhead": 1.0}, "2 of 3; those before it ask for 1 GPU."),
        ({"position": 1}, "1 of 3: it is tried first."),
        ({"position": 1, "lineLength": 1}, "It is the only one that waits in this pool."),
    ],
)
def test_its_place(changes: dict[str, Any], place: str) -> None:
    assert told(**changes).place == place


@pytest.mark.parametrize(
    ("changes", "start"),
    [
        ({}, "At the earliest today 12:00, if nobody before it in line takes that."),
        ({"position": 1}, "At the earliest today 12:00."),
        ({"earliestStart": None}, "No start was found at which it fits beside what is booked now."),
        ({"earliestStart": None, "earliestTestedAt": None}, ""),
    ],
)
def test_its_earliest_start(changes: dict[str, Any], start: str) -> None:
    assert told(**changes).start == start


def test_what_blocks_it_and_until_when() -> None:
    (reason,) = told().reasons
    assert reason.title == "Devices are booked in that window: 2 nodes"
    assert "The first of them is free again today 10:00." in reason.text


def test_maintenance_is_told_from_a_cordon() -> None:
    needs = {"filter": "state", "needs": "a node without maintenance in that time", "nodes": 2}
    until = answers.NOW_MS + 3_600_000
    (planned,) = told(reasons=[{**needs, "samples": [], "until": until}]).reasons
    assert planned.title == "Maintenance is planned in that time: 2 nodes"
    assert planned.text.endswith("Start later, or end before it.")
    (cordoned,) = told(reasons=[{**needs, "samples": [], "until": None}]).reasons
    assert cordoned.title == "Nodes are not taking reservations: 2 nodes"


def test_what_no_node_could_serve_is_told_the_most_there_is() -> None:
    lacking = {"filter": "class", "needs": "16 GPUs", "nodes": 2, "samples": []}
    (reason,) = told(reasons=[{**lacking, "most": "8 GPUs on a node"}]).reasons
    assert reason.title == "No node has so many such devices: 2 nodes"
    assert "There is at most 8 GPUs on a node, even with nothing booked." in reason.text


def test_one_more_try_is_no_news() -> None:
    assert told(testedAt=answers.NOW_MS).news == told().news
    assert told(position=1).news != told().news
    assert waiting_page.standing(None, now=clock.from_ms(0), zone=UTC) is None
