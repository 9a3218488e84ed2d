"""Whatever the API can do, the Python client can; whatever the client asks for is a route."""

import pytest
from django.urls import resolve

from tests.support import client_calls, routes

API = "/api/v1"

#: Routes that programs do not call through the client.
WITHOUT_A_CALL = {
    f"GET {API}/openapi.json": "the document itself, for makers of other clients",
    f"GET {API}/docs": "a page for people",
}


def _asked() -> set[str]:
    """Each route that some call of the client asks for; a path that is none raises."""
    found = set()
    for requests in client_calls.requests().values():
        for method, path, *_ in requests:
            if path.startswith(API):
                found.add(f"{method} /{resolve(path).route}")
    return found


def _offered() -> set[str]:
    return {
        f"{method} {route.template}"
        for route in routes.under(f"{API}/")
        for method in route.methods
    }


@pytest.mark.rule("A9")
def test_every_route_has_a_call_of_the_client() -> None:
    asked, offered = _asked(), _offered()
    assert offered - asked == set(WITHOUT_A_CALL)
    assert asked - offered == set()
