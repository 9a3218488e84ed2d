"""Query strings: every parameter declared, none twice."""

import re
from typing import Annotated, Literal
from urllib.parse import urlencode

import pytest
from django.http import QueryDict
from pydantic import Field

from bettercompute.errors import InvalidInput
from bettercompute.web import queries
from bettercompute.wire.base import Id, WireModel
from bettercompute.wire.reservations import ReservationQuery
from tests.support import conformance, routes


class Query(WireModel):
    tenant_id: Id | None = None
    scope: Literal["mine", "all"] = "mine"
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    state: list[Literal["placed", "active"]] = []
    spot: bool = False


def read(text: str) -> Query:
    return queries.read(QueryDict(text), Query)


def test_texts_become_what_the_model_says() -> None:
    assert read("") == Query()
    assert read("tenantId=ten_a&scope=all&limit=7&state=placed&state=active&spot=true") == Query(
        tenant_id="ten_a", scope="all", limit=7, state=["placed", "active"], spot=True
    )


@pytest.mark.rule("A5")
@pytest.mark.parametrize(
    ("text", "path", "says"),
    [
        ("color=red", "color", "unknown query parameter; allowed: limit"),
        ("tenant_id=ten_a", "tenant_id", "unknown"),
        ("limit=0", "limit", "greater than"),
        ("limit=201", "limit", "less than"),
        ("limit=many", "limit", "valid integer"),
        ("limit=", "limit", "valid integer"),
        ("limit=1&limit=2", "limit", "more than once"),
        ("limit=7.0", "limit", "valid integer"),
        ("limit=%207", "limit", "valid integer"),
        ("limit=1_0", "limit", "valid integer"),
        ("limit=" + "9" * 5000, "limit", "valid integer"),
        ("spot=yes", "spot", "valid boolean"),
        ("scope=theirs", "scope", "'mine' or 'all'"),
        ("state=placed&state=gone", "state[1]", "'placed' or 'active'"),
        ("tenantId=", "tenantId", "at least 1 character"),
        ("tenantId=a%00b", "tenantId", "NUL"),
        ("tenantId=%ff", "tenantId", "UTF-8"),
        ("a%00=1", "a\\u0000", "unknown"),
        ("=1", "(empty)", "unknown"),
    ],
)
def test_anything_else_is_refused_by_name(text: str, path: str, says: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read(text)
    (error,) = refused.value.details["errors"]
    assert error["path"] == path
    assert says in error["message"]


def _closed() -> list[tuple[routes.Route, str, list[str]]]:
    """The parameters of all routes that take one of a few values, with those."""
    found = []
    for route in routes.under("/api/v1/"):
        described = conformance.operation("GET", route.path()) or {}
        for parameter in described.get("parameters", []):
            schema = parameter.get("schema", {})
            values = schema.get("items", schema).get("enum")
            if values:
                found.append((route, parameter["name"], values))
    return found


@pytest.mark.rule("A5", "R9")
def test_a_value_that_is_none_is_told_the_ones_that_are() -> None:
    closed = _closed()
    assert {name for _, name, _ in closed} >= {"state", "scope", "outcome"}
    for route, name, values in closed:
        model = route.view.cls.get.query_model
        for value in values:
            assert queries.read(_asked(model, name, value), model)
        with pytest.raises(InvalidInput) as refused:
            queries.read(_asked(model, name, "bad"), model)
        (error,) = refused.value.details["errors"]
        assert re.findall(r"'([^']*)'", error["message"]) == values, (route, name)


def _asked(model: type[WireModel], name: str, value: str) -> QueryDict:
    """With this value, and a number for what must be given beside."""
    needed = [field.alias for field in model.model_fields.values() if field.is_required()]
    return QueryDict(urlencode({**dict.fromkeys(needed, "1"), name: value}))


@pytest.mark.rule("R9")
def test_drafts_are_no_state_to_ask_for() -> None:
    for state in ("draft", "bad"):
        with pytest.raises(InvalidInput) as refused:
            queries.read(QueryDict(f"state={state}"), ReservationQuery)
        assert "draft" not in refused.value.details["errors"][0]["message"]
