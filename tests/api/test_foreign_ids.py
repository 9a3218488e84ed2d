"""Another tenant's id, in the path, in the body or in the query: NOT_FOUND everywhere (R38).

The routes and pages are those of the URL configuration, so a new one is tried as well. What exists
is answered exactly as what does not: nobody learns another tenant's ids.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from django.http import HttpResponse

from bettercompute import clock
from bettercompute.iam import policies
from nodes import maintenance
from outbox.models import Event
from reservations.feeds import keeping
from tests.support import cast, delegates, make, routes, valid_requests, webhooks
from tests.support.cast import Api

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.case(24),
    pytest.mark.rule("R38"),
]

FORBID = 'forbid (principal, action == Action::"compute:reservations:create", resource);'
OF_NOBODY = ("<str:type_name>",)  # what is not a tenant's: everybody may read it
WITH_ID = [
    route
    for route in valid_requests.ROUTES
    if "<" in route.template and not route.template.endswith(OF_NOBODY)
]
PAGES = [
    route
    for route in routes.under("/")
    if "<str:" in route.template and not route.template.startswith(("/api/", "/admin/"))
]


@dataclass(frozen=True, slots=True)
class Theirs:
    """What acme has, by the name of the parameter that takes it; and mallory, of globex."""

    mallory: Api
    globex: str
    ids: dict[str, str]


@pytest.fixture
def theirs(made: Theirs) -> Theirs:
    """What there is for all tests, asked by a token of this one's."""
    mallory = cast.api("mallory")
    mallory.get("/whoami")  # writes last_used_at, once
    return replace(made, mallory=mallory)


@pytest.fixture(scope="module")
def made(module_database: None) -> Theirs:
    """One of everything that has an id."""
    alice, pool = cast.caller("alice"), make.pool()
    reservation = make.active(alice, pool)
    token, _ = cast.token("alice")
    policy = policies.create(alice, draft=policies.Draft("no-more", FORBID, enabled=False))
    start = clock.now() + timedelta(days=1_000)
    at = maintenance.place(pool_id=pool.pk)
    assert at is not None
    window, _ = maintenance.announce(
        at,
        start=start,
        end=start + timedelta(hours=1),
        reason="new fans",
        account_id=alice.account_id,
    )
    webhook, _ = webhooks.endpoint("https://hooks.example.com/")
    delivery = webhooks.sent(webhook)
    ids = {
        "tenant_id": alice.tenant_id,
        "pool_id": pool.pk,
        "node_id": reservation.allocations.get().node_id,
        "reservation_id": reservation.pk,
        "series_id": make.series(alice, pool),
        "token_id": token.pk,
        "feed_id": keeping.create(alice)[0].pk,
        "confirmation_id": delegates.question("alice", reservation).pk,
        "policy_id": policy.id,
        "maintenance_id": window.id,
        "webhook_id": webhook.pk,
        "event_id": Event.objects.filter(tenant_id=alice.tenant_id).latest("seq").id,
        "delivery_id": delivery.pk,
    }
    mallory = cast.api("mallory")
    mallory.get("/events/stream")  # writes which cluster positions are of, once
    return Theirs(mallory, cast.tenant("globex").pk, ids)


@pytest.fixture
def unchanged(theirs: Theirs) -> Iterator[None]:
    """Nothing was stored meanwhile, in any table."""
    before = valid_requests.snapshot()
    yield
    assert valid_requests.snapshot() == before


def path_of(route: routes.Route, ids: dict[str, str]) -> str:
    """The path with acme's id in it; a new kind of id fails here until the world has one."""
    found = re.sub(r"<str:(\w+)>", lambda match: ids[match.group(1)], route.template)
    return found.removeprefix("/api/v1")


def valid(theirs: Theirs, method: str, route: routes.Route) -> dict[str, Any]:
    """A body with acme's ids, but for the tenant that mallory acts for."""
    world = valid_requests.World(
        theirs.mallory, theirs.globex, theirs.ids["pool_id"], theirs.ids["node_id"]
    )
    return valid_requests.bodies(world)[method, route.template.removeprefix("/api/v1")]


def send(theirs: Theirs, method: str, path: str, body: dict[str, Any] | None) -> HttpResponse:
    if body is not None:
        return theirs.mallory.send(method, path, body)
    return theirs.mallory.raw(method, path, "")


def asked(theirs: Theirs, method: str, route: routes.Route, ids: dict[str, str]) -> HttpResponse:
    """Mallory asks for something of this id, as somebody of globex."""
    path = path_of(route, ids)
    if method in valid_requests.WITH_BODY:
        return send(theirs, method, path, valid(theirs, method, route))
    query = f"?tenantId={theirs.globex}{valid_requests.required(route)}"
    return send(theirs, method, path + query, None)


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("route", WITH_ID, ids=str)
def test_an_id_in_the_path_is_as_one_that_nobody_has(theirs: Theirs, route: routes.Route) -> None:
    nobodys = {name: f"{value[:-6]}zzzzzz" for name, value in theirs.ids.items()}
    for method in route.methods:
        foreign = cast.problem(asked(theirs, method, route, theirs.ids), 404, "NOT_FOUND")
        unknown = cast.problem(asked(theirs, method, route, nobodys), 404, "NOT_FOUND")
        for document, ids in ((foreign, theirs.ids), (unknown, nobodys)):
            del document["requestId"]
            for value in ids.values():
                document["detail"] = document["detail"].replace(value, "…")
            document["instance"] = ""
        assert foreign == unknown


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("case", valid_requests.WRITES, ids=valid_requests.name)
def test_every_id_in_a_body_is_not_found(theirs: Theirs, case: tuple[str, routes.Route]) -> None:
    method, route = case
    body = valid(theirs, method, route)
    named = [field for field in body if field.endswith("Id")]
    assert "tenantId" in named
    path = path_of(route, theirs.ids)
    for field in named:
        key = re.sub("Id$", "_id", field)
        answer = send(theirs, method, path, body | {field: theirs.ids[key]})
        cast.problem(answer, 404, "NOT_FOUND")


@pytest.mark.usefixtures("unchanged")
def test_lists_of_the_caller_show_nothing_of_others_and_take_no_foreign_filter(
    theirs: Theirs,
) -> None:
    secrets = set(theirs.ids.values())
    lists = [r for r in valid_requests.ROUTES if "<" not in r.template and "GET" in r.methods]
    assert len(lists) > 5
    for route in lists:
        path = path_of(route, theirs.ids)
        own = theirs.mallory.get(path)
        assert not [value for value in secrets if value in own.content.decode()], path
        for name in ("poolId", "cursor", "nodeId"):
            key = {"poolId": "pool_id", "cursor": "reservation_id", "nodeId": "node_id"}[name]
            answer = theirs.mallory.get(f"{path}?{name}={theirs.ids[key]}")
            assert answer.status_code in {200, 400, 403, 404}, (path, name)
            if answer.status_code == 200:
                assert json.loads(answer.content)["items"] == [], (path, name)


@pytest.mark.parametrize("route", PAGES, ids=str)
def test_a_page_of_the_console_is_not_found(theirs: Theirs, route: routes.Route) -> None:
    browser = cast.session("mallory", check_csrf=False)
    before = valid_requests.snapshot()
    path = path_of(route, theirs.ids)
    answers = [browser.get(path), browser.post(path)]
    assert {answer.status_code for answer in answers} <= {404, 405}
    assert 404 in {answer.status_code for answer in answers}  # 405 where it only takes the other
    for answer in answers:
        shown = answer.content.decode().replace(path, "")
        assert not [value for value in theirs.ids.values() if value in shown]
    after = valid_requests.snapshot()
    assert {table for table in after if after[table] != before[table]} <= {"django_session"}
