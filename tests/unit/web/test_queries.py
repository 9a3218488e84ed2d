"""Query strings: every parameter declared, none twice."""

from typing import Annotated, Literal

import pytest
from django.http import QueryDict
from pydantic import Field

from bettercompute.errors import InvalidInput
from bettercompute.web import queries
from bettercompute.wire.base import Id, WireModel


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
