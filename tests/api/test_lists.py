"""Every list has pages (A5): the same items in the same order, whatever the size of a page.

Lists are found in the OpenAPI document, so a new one is tried as well.
"""

from typing import Any

import pytest

from bettercompute.iam import policies
from bettercompute.web import pagination
from pools import budgets
from pools.budgets import NewBudget
from tests.api.test_foreign_ids import FORBID, Theirs, made, path_of, theirs
from tests.support import cast, conformance, make, routes, valid_requests

pytestmark = [pytest.mark.django_db, pytest.mark.rule("A5")]

__all__ = ["made", "theirs"]

#: Why these have one page.
WHOLE = {
    "/api/v1/policies/examples": "they are shipped",
    "/api/v1/leases": "one a role of the control plane",
    "/api/v1/usage": "bounded by its span, and metered as a whole",
    "/api/v1/events/catalog": "they are shipped",
}


def is_list(route: routes.Route) -> bool:
    described = conformance.operation("GET", route.path())
    if described is None or "200" not in described["responses"]:
        return False
    content = described["responses"]["200"].get("content", {}).get("application/json", {})
    name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
    model = conformance.document()["components"]["schemas"].get(name, {})
    return "items" in model.get("properties", {})


LISTS = [route for route in valid_requests.ROUTES if route.template not in WHOLE and is_list(route)]


@pytest.fixture
def alice(theirs: Theirs) -> cast.Api:
    """With two or more of what can be had in numbers."""
    who = cast.caller("alice")
    for name in ("bob", "carol"):
        cast.token(name)
        budgets.create(who.tenant_id, NewBudget(name=name, gpu_milli_hours=10**9))
        policies.create(who, draft=policies.Draft(name, FORBID, enabled=False))
    pool = make.pool(nodes=2)
    make.reservation(who, pool)
    return cast.api("alice")


def test_lists_are_found() -> None:
    assert {"/api/v1/pools", "/api/v1/tokens", "/api/v1/quotas"} <= {r.template for r in LISTS}


@pytest.mark.parametrize("route", LISTS, ids=str)
def test_pages_make_up_the_whole_list(theirs: Theirs, alice: cast.Api, route: routes.Route) -> None:
    path = path_of(route, theirs.ids)
    whole = alice.get(f"{path}?limit=200").json()
    assert whole["nextCursor"] is None
    found: list[Any] = []
    cursor = ""
    while cursor is not None:
        page = alice.get(f"{path}?limit=1{cursor and f'&cursor={cursor}'}").json()
        assert len(page["items"]) <= 1
        found += page["items"]
        cursor = page["nextCursor"]
    assert found == whole["items"]
    several = ("/pools", "/tokens", "/quotas", "/budgets", "/policies", "/reservations", "/nodes")
    assert len(found) > 1 or not route.template.endswith(several)


@pytest.mark.parametrize("route", LISTS, ids=str)
def test_a_page_that_cannot_be_is_refused(theirs: Theirs, route: routes.Route) -> None:
    api = cast.api("alice")
    path = path_of(route, theirs.ids)
    other = pagination.encode("another-list", "x")
    for query, field in (
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("cursor=x", "cursor"),
        (f"cursor={other}", "cursor"),
        (f"cursor={'x' * 1_025}", "cursor"),
    ):
        problem = cast.problem(api.get(f"{path}?{query}"), 400, "INVALID_INPUT")
        assert [each["path"] for each in problem["details"]["errors"]] == [field], query
