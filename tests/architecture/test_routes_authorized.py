"""No route is open by oversight: each refuses who is not authenticated, or is on the list here."""

from collections import defaultdict

import pytest
from django.test import Client

from bettercompute.web.views import ApiView
from tests.support import cast, routes

PUBLIC_API = {"/api/v1/openapi.json", "/api/v1/docs"}  # they say nothing of any tenant
PUBLIC_PAGES = {"/login", "/healthz", "/readyz", "/docs/errors"}
PUBLIC_PAGES |= {"/admin/login/", "/admin/logout/"}  # signing out of nothing changes nothing

API = routes.under("/api/")
PAGES = [
    route
    for route in routes.under("/")
    if not route.template.startswith("/api/") and "(?P" not in route.template
]
AREAS: dict[str, list[routes.Route]] = defaultdict(list)
for page in PAGES:
    if page.path() not in PUBLIC_PAGES:
        AREAS[page.template.split("/")[1]].append(page)


def test_there_are_routes() -> None:
    assert len(API) > 15
    assert len(PAGES) > 20
    assert {route.template for route in API} >= PUBLIC_API


@pytest.mark.rule("A2", "R38")
@pytest.mark.django_db
@pytest.mark.parametrize("route", API, ids=str)
def test_every_api_route_refuses_who_is_not_authenticated(route: routes.Route) -> None:
    if route.template in PUBLIC_API:
        return
    assert issubclass(route.view.cls, ApiView), "API views share one door"
    client = Client(raise_request_exception=False)
    for method in route.methods:
        answer = client.generic(method, route.path(), "{}", content_type="application/json")
        cast.problem(answer, 401, "UNAUTHENTICATED")


@pytest.mark.django_db
@pytest.mark.parametrize("area", sorted(AREAS))
def test_every_page_sends_who_is_not_signed_in_to_the_login(area: str) -> None:
    client = Client(enforce_csrf_checks=False, raise_request_exception=False)
    for route in AREAS[area]:
        for answer in (client.get(route.path("1")), client.post(route.path("1"))):
            refused = answer.status_code in {401, 403, 404, 405}
            to_login = answer.status_code == 302 and "login" in answer["Location"]
            assert refused or to_login, (route, answer.status_code, answer.get("Location"))


@pytest.mark.django_db
@pytest.mark.parametrize("route", [r for r in API if r.template not in PUBLIC_API], ids=str)
def test_every_api_route_answers_problems_to_a_wrong_method_and_format(route: routes.Route) -> None:
    api = cast.api("alice").client
    for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"} - set(route.methods):
        answer = api.generic(method, route.path())
        cast.problem(answer, 405, "METHOD_NOT_ALLOWED")
        assert set(answer["Allow"].split(", ")) >= set(route.methods)
    answer = api.generic(route.methods[0], route.path(), headers={"Accept": "text/html"})
    cast.problem(answer, 406, "NOT_ACCEPTABLE")
