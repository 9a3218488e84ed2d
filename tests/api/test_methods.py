"""Every path of programs, asked with every method: what it does not have is 405 as a problem."""

import pytest
from django.test import Client

from tests.support import cast, routes

pytestmark = [pytest.mark.django_db, pytest.mark.rule("A3")]

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW")
PROGRAMS = [
    route
    for prefix in ("/api/", "/feeds/", "/healthz", "/readyz", "/metrics", "/docs/errors")
    for route in routes.under(prefix)
]


@pytest.mark.parametrize("route", PROGRAMS, ids=str)
def test_a_method_that_a_path_does_not_have_is_405_with_those_it_has(route: routes.Route) -> None:
    """Also without a CSRF token and with a session, which a browser sends by itself."""
    api = cast.api("alice").client
    session = cast.session("alice")
    path = route.path("x").replace("<slug:address>", "x")
    for method in METHODS:
        if method in route.methods:
            continue
        for client in (api, session):
            answer = client.generic(method, path)
            problem = cast.problem(answer, 405, "METHOD_NOT_ALLOWED")
            allowed = set(answer["Allow"].split(", "))
            assert set(route.methods) <= allowed
            assert set(problem["details"]["allow"]) == allowed


@pytest.mark.parametrize("path", ["/api/v1/none", "/api/v2/whoami", "/api/v1/pools/", "/feeds/x"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_a_path_that_there_is_not_is_404_whatever_the_method(path: str, method: str) -> None:
    for client in (Client(), cast.session("alice")):
        cast.problem(client.generic(method, path), 404, "NOT_FOUND")
