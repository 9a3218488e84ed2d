"""Fields of several kinds (R2): one mistake is said once, at its place, in the field's words."""

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest

from bettercompute import wire
from bettercompute.errors import InvalidInput
from bettercompute.web import parsing
from bettercompute.wire.base import WireModel
from bettercompute.wire.capacity_offers import CapacityOffersRequest
from bettercompute.wire.reservations import ExtendRequest, ReservationRequest
from bettercompute.wire.series import SeriesSkip

pytestmark = pytest.mark.rule("R2", "A3")

CREATE = {
    "tenantId": "t",
    "poolId": "p",
    "devices": [{"class": "gpu", "count": 1}],
    "duration": "1h",
}


def mistakes(model: type[WireModel], body: dict[str, Any]) -> list[tuple[str, str]]:
    with pytest.raises(InvalidInput) as refused:
        parsing.parse(model, body)
    return [(each["path"], each["message"]) for each in refused.value.details["errors"]]


@pytest.mark.parametrize("wrong", [{}, [], True, 1.5, None])
def test_a_kind_that_no_branch_has_is_said_in_the_fields_words(wrong: object) -> None:
    ((path, said),) = mistakes(ReservationRequest, CREATE | {"duration": wrong})
    assert path == "duration"
    assert said == "should be a duration: whole milliseconds, or text such as 8h"


@pytest.mark.parametrize(
    ("model", "body", "found"),
    [
        (ReservationRequest, {"duration": ""}, "duration"),
        (ReservationRequest, {"start": -1}, "start"),
        (ReservationRequest, {"start": "x" * 65}, "start"),
        (ReservationRequest, {"devices": [{"class": "gpu", "count": 0}]}, "devices[0].count"),
        (
            ReservationRequest,
            {"devices": [{"class": "gpu", "count": {"min": 1, "max": "x"}}]},
            "devices[0].count.max",
        ),
        (
            ReservationRequest,
            {"devices": [{"class": "gpu", "count": 1, "selector": {"model": []}}]},
            "devices[0].selector.model",
        ),
        (
            ReservationRequest,
            {"devices": [{"class": "gpu", "count": 1, "selector": [{"key": ""}]}]},
            "devices[0].selector[0].key",
        ),
        (CapacityOffersRequest, {"duration": {"min": [], "max": 1}}, "duration.min"),
        (CapacityOffersRequest, {"start": {"latest": True}}, "start.latest"),
        (CapacityOffersRequest, {"start": 1.5}, "start"),
    ],
)
def test_a_mistake_is_said_once_and_at_its_place(
    model: type[WireModel], body: dict[str, Any], found: str
) -> None:
    assert [path for path, _ in mistakes(model, CREATE | body)] == [found]


def test_of_verbs_too() -> None:
    said = mistakes(ExtendRequest, {"tenantId": "t", "until": {}, "by": []})
    assert [path for path, _ in said] == ["until", "by"]
    assert len(mistakes(SeriesSkip, {"tenantId": "t", "occurrence": -1})) == 1


def test_no_model_of_a_request_tries_every_branch() -> None:
    """A plain union is of one branch and null, nothing else."""
    for module in pkgutil.iter_modules(wire.__path__):
        importlib.import_module(f"{wire.__name__}.{module.name}")
    for model in _below(WireModel):
        for union in _unions(model.__pydantic_core_schema__):
            assert len(union["choices"]) < 2, (model, union)


def _below(model: type[WireModel]) -> Iterator[type[WireModel]]:
    for each in model.__subclasses__():
        yield each
        yield from _below(each)


def _unions(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        if node.get("type") == "union":
            yield node
        for value in node.values():
            yield from _unions(value)
    elif isinstance(node, list | tuple):
        for value in node:
            yield from _unions(value)
