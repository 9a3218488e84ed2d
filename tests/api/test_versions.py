"""Versions over every route (C2): what is read carries one, what is written honours it.

Each route and method of the product is in one of the tables below, so a new one is decided about.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F
from django.http import HttpResponse

from bettercompute import clock
from bettercompute.iam.models import Policy
from nodes import eligibility, maintenance
from nodes.models import MaintenanceWindow, Node
from nodes.operations import maintenance as operation
from outbox.models import Event
from outbox.webhooks import endpoints
from pools import catalogue
from pools.models import Pool
from reservations import lifecycle, queries
from reservations.models import Confirmation, Reservation
from reservations.series import rows
from tests.support import cast, delegates, make, routes, webhooks

pytestmark = [pytest.mark.django_db, pytest.mark.rule("C2", "A5")]

API = "/api/v1"
FORBID = 'forbid (principal, action == Action::"compute:reservations:create", resource);'


@dataclass(frozen=True, slots=True)
class World:
    """One of each aggregate that the API shows, with alice as its admin."""

    pool: Pool
    node: Node
    reservation: Reservation
    series: str
    policy: Policy
    maintenance: str
    webhook: str
    delivery: str
    event: str
    confirmation: str
    api: cast.Api

    def path(self, template: str) -> str:
        """A route's path below /api/v1, with the ids of this world."""
        ids = {
            "<str:pool_id>": self.pool.pk,
            "<str:node_id>": self.node.pk,
            "<str:reservation_id>": self.reservation.pk,
            "<str:series_id>": self.series,
            "<str:policy_id>": self.policy.pk,
            "<str:maintenance_id>": self.maintenance,
            "<str:webhook_id>": self.webhook,
            "<str:delivery_id>": self.delivery,
            "<str:event_id>": self.event,
            "<str:confirmation_id>": self.confirmation,
            "<str:type_name>": "reservation.placed",
        }
        for name, value in ids.items():
            template = template.replace(name, value)
        return template.removeprefix(API)


@pytest.fixture
def world(made: World) -> World:
    """The one of all tests, asked by a token of this one's."""
    return replace(made, api=cast.api("alice"))


@pytest.fixture(scope="module")
def made(module_database: None) -> World:
    pool = make.pool()
    alice = cast.caller("alice")
    reservation = make.active(alice, pool, leaseSeconds=600)
    policy = Policy.objects.create(
        tenant=cast.tenant("acme"), name="no-more", text=FORBID, enabled=False
    )
    node = Node.objects.get(pool=pool)
    start = clock.now() + timedelta(days=1_000)
    at = operation.access(alice, node_id=node.pk)
    window, _ = maintenance.announce(
        at,
        start=start,
        end=start + timedelta(hours=1),
        reason="new fans",
        account_id=alice.account_id,
    )
    series = make.series(alice, pool)
    webhook, _ = webhooks.endpoint("https://hooks.example.com/")
    delivery = webhooks.sent(webhook)
    event = Event.objects.filter(tenant_id=alice.tenant_id).values_list("id", flat=True)[0]
    return World(
        pool=pool,
        node=node,
        reservation=reservation,
        series=series,
        policy=policy,
        maintenance=window.id,
        webhook=webhook.pk,
        delivery=delivery.pk,
        event=event,
        confirmation=delegates.question("alice", reservation).pk,
        api=cast.api("alice"),
    )


def bump_reservation(world: World) -> None:
    """As a reconciler does: it changes a condition or a deadline."""
    locked = queries.locked(world.reservation.pk)
    assert locked is not None
    lifecycle.amend(locked, {"conditions": []})


def bump_series(world: World) -> None:
    """As its reconciler does: more of its occurrences have rows."""
    locked = rows.locked(world.series)
    assert locked is not None
    rows.amend(locked, {"conditions": []})


def bump_confirmation(world: World) -> None:
    """Nothing of it changes but that it is decided."""
    Confirmation.objects.filter(pk=world.confirmation).update(version=F("version") + 1)


def bump_node(world: World) -> None:
    eligibility.set_labels(world.node.pk, {"rack": str(world.node.pk)})


def bump_maintenance(world: World) -> None:
    """Nothing of it changes but that it is called off."""
    MaintenanceWindow.objects.filter(pk=world.maintenance).update(version=F("version") + 1)


def bump_pool(world: World) -> None:
    catalogue.change_pool(world.pool.pk, region="elsewhere", policy={})


def bump_policy(world: World) -> None:
    Policy.objects.filter(pk=world.policy.pk).update(name="other", version=2)


def bump_webhook(world: World) -> None:
    endpoints.rotate_secret(cast.caller("alice"), world.webhook)


Bump = Callable[[World], None]

#: Reads of one aggregate: the ETag has the version that they show.
AGGREGATES: dict[str, Bump] = {
    f"{API}/reservations/<str:reservation_id>": bump_reservation,
    f"{API}/series/<str:series_id>": bump_series,
    f"{API}/confirmations/<str:confirmation_id>": bump_confirmation,
    f"{API}/nodes/<str:node_id>": bump_node,
    f"{API}/pools/<str:pool_id>": bump_pool,
    f"{API}/policies/<str:policy_id>": bump_policy,
    f"{API}/maintenance/<str:maintenance_id>": bump_maintenance,
    f"{API}/webhooks/<str:webhook_id>": bump_webhook,
}

#: Writes to one aggregate: a stale If-Match is refused. The aggregate's own path, and the body.
WRITE = {"scope": "tenant", "name": "no-more", "text": FORBID, "enabled": False}
SKIP = {"occurrence": "2026-03-03T09:00:00Z"}  # the first of the series
EXTEND = {"by": "1h", "idempotencyKey": "longer"}
VERBS: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {
    ("POST", f"{API}/reservations/<str:reservation_id>/renew"): ("reservations", {}),
    ("POST", f"{API}/reservations/<str:reservation_id>/extend"): ("reservations", EXTEND),
    ("POST", f"{API}/reservations/<str:reservation_id>/users"): ("reservations", {}),
    ("POST", f"{API}/reservations/<str:reservation_id>/release"): ("reservations", {}),
    ("POST", f"{API}/reservations/<str:reservation_id>/cancel"): ("reservations", {}),
    ("POST", f"{API}/series/<str:series_id>/cancel"): ("series", {}),
    ("POST", f"{API}/series/<str:series_id>/skip"): ("series", SKIP),
    ("POST", f"{API}/confirmations/<str:confirmation_id>/approve"): ("confirmations", {}),
    ("POST", f"{API}/confirmations/<str:confirmation_id>/deny"): ("confirmations", {}),
    ("POST", f"{API}/confirmations/<str:confirmation_id>/withdraw"): ("confirmations", {}),
    ("POST", f"{API}/nodes/<str:node_id>/cordon"): ("nodes", {}),
    ("POST", f"{API}/nodes/<str:node_id>/uncordon"): ("nodes", {}),
    ("POST", f"{API}/maintenance/<str:maintenance_id>/cancel"): ("maintenance", {}),
    ("PUT", f"{API}/policies/<str:policy_id>"): ("policies", WRITE),
    ("DELETE", f"{API}/policies/<str:policy_id>"): ("policies", {}),
    ("PATCH", f"{API}/webhooks/<str:webhook_id>"): ("webhooks", {"description": "the chat"}),
    ("DELETE", f"{API}/webhooks/<str:webhook_id>"): ("webhooks", {}),
    ("POST", f"{API}/webhooks/<str:webhook_id>/rotate-secret"): ("webhooks", {}),
}

#: Reads of what has no version of its own: lists and derived views. The ETag is of the content.
VIEWS = {
    f"{API}/whoami",
    f"{API}/members",
    f"{API}/feeds",
    f"{API}/confirmations",
    f"{API}/tokens",
    f"{API}/policies",
    f"{API}/policies/examples",
    f"{API}/reservations",
    f"{API}/series",
    f"{API}/reservations/<str:reservation_id>/extension",
    f"{API}/pools",
    f"{API}/pools/<str:pool_id>/timeline",
    f"{API}/pools/<str:pool_id>/fragmentation",
    f"{API}/pools/<str:pool_id>/maintenance",
    f"{API}/nodes/<str:node_id>/maintenance",
    f"{API}/quotas",
    f"{API}/nodes",
    f"{API}/webhooks",
    f"{API}/webhooks/<str:webhook_id>/deliveries",
    f"{API}/webhooks/<str:webhook_id>/deliveries/<str:delivery_id>",
    f"{API}/audit",
    f"{API}/events",
    f"{API}/events/catalog",
    f"{API}/events/catalog/<str:type_name>",
    f"{API}/events/<str:event_id>",
    f"{API}/openapi.json",
}

#: Neither, and why.
BESIDE: dict[tuple[str, str], str] = {
    ("GET", f"{API}/docs"): "a page",
    ("GET", f"{API}/events/stream"): "goes on for as long as it is read",
    ("GET", f"{API}/selfcheck"): "another every time: it says how old it is",
    ("GET", f"{API}/leases"): "another every time: it says when they lapse",
    ("GET", f"{API}/usage"): "another every time: it is metered up to this instant",
    ("GET", f"{API}/budgets"): "another every time: it is metered up to this instant",
    ("POST", f"{API}/tokens"): "makes a new one",
    ("POST", f"{API}/tokens/<str:token_id>/revoke"): "final and idempotent: there is one way",
    ("POST", f"{API}/policies"): "makes a new one",
    ("POST", f"{API}/feeds"): "makes a new one",
    ("POST", f"{API}/feeds/<str:feed_id>/revoke"): "final and idempotent: there is one way",
    ("POST", f"{API}/policies/dry-run"): "writes nothing",
    ("POST", f"{API}/capacity/preview"): "writes nothing",
    ("POST", f"{API}/pools/<str:pool_id>/maintenance"): "makes one, and the same one again",
    ("POST", f"{API}/nodes/<str:node_id>/maintenance"): "makes one, and the same one again",
    ("POST", f"{API}/capacity/offers"): "makes new ones, which hold nothing",
    ("POST", f"{API}/webhooks"): "makes a new one",
    ("POST", f"{API}/webhooks/<str:webhook_id>/test"): "sends a new event to it",
    ("POST", f"{API}/webhooks/<str:webhook_id>/redeliver"): "sends what it sent before",
    (
        "POST",
        f"{API}/webhooks/<str:webhook_id>/deliveries/<str:delivery_id>/redeliver",
    ): "sends what it sent before",
    ("POST", f"{API}/reservations"): "makes one, told apart by its idempotency key",
}


def test_every_route_is_decided_about() -> None:
    known = {("GET", template) for template in {*AGGREGATES, *VIEWS}} | {*VERBS, *BESIDE}
    there = {(method, each.template) for each in routes.under(f"{API}/") for method in each.methods}
    assert known == there


def version_of(etag: str) -> int:
    return int(etag.strip('"').partition(".")[0])


def send(world: World, method: str, template: str, **headers: str) -> HttpResponse:
    kind, fields = VERBS[method, template]
    path = world.path(template)
    if method == "DELETE":
        return world.api.client.delete(f"{API}{path}", headers=cast._named(headers))
    body = (
        dict(fields)
        if kind in {"nodes", "maintenance"}
        else {**fields, "tenantId": cast.tenant("acme").pk}
    )
    return world.api.send(method, path, body, **headers)


@pytest.mark.parametrize("template", sorted({*AGGREGATES, *VIEWS}))
def test_a_read_has_a_strong_etag_and_is_not_sent_twice(world: World, template: str) -> None:
    path = world.path(template)
    first = world.api.get(path)
    assert first.status_code == 200
    etag = first["ETag"]
    assert etag.startswith('"')
    for known in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        again = world.api.get(path, If_None_Match=known)
        assert (again.status_code, again.content, again["ETag"]) == (304, b"", etag), known
        assert again["Content-Type"] == first["Content-Type"], known
    assert world.api.get(path, If_None_Match='"other"').status_code == 200


@pytest.mark.parametrize("template", AGGREGATES)
def test_the_etag_of_an_aggregate_has_its_version_and_moves_with_it(
    world: World, template: str
) -> None:
    path = world.path(template)
    first = world.api.get(path)
    assert version_of(first["ETag"]) == first.json()["version"]
    AGGREGATES[template](world)
    second = world.api.get(path, If_None_Match=first["ETag"])
    assert second.status_code == 200
    assert version_of(second["ETag"]) == second.json()["version"]
    assert second.json()["version"] == first.json()["version"] + 1


@pytest.mark.parametrize(("method", "template"), VERBS)
def test_a_stale_if_match_is_refused_with_the_current_version(
    world: World, method: str, template: str
) -> None:
    (aggregate,) = [known for known in AGGREGATES if template.startswith(known)]
    path = world.path(aggregate)
    stale = world.api.get(path)["ETag"]
    AGGREGATES[aggregate](world)
    before = json.loads(world.api.get(path).content)
    for header in (stale, f'"{version_of(stale)}"', f'"7777", {stale}', f"W/{stale}"):
        answer = send(world, method, template, If_Match=header)
        problem = cast.problem(answer, 412, "PRECONDITION_FAILED")
        if not header.startswith("W/"):
            assert problem["details"]["version"] == before["version"], header
    assert json.loads(world.api.get(path).content) == before


@pytest.mark.parametrize("header", ["whole", "version", "several", "any", None])
@pytest.mark.parametrize(("method", "template"), VERBS)
def test_the_version_that_is_meant_is_let_through(
    world: World, method: str, template: str, header: str | None
) -> None:
    """By the whole ETag of the read, by its version alone, by ``*``, or without the header."""
    (aggregate,) = [known for known in AGGREGATES if template.startswith(known)]
    AGGREGATES[aggregate](world)
    etag = world.api.get(world.path(aggregate))["ETag"]
    said = {
        "whole": {"If_Match": etag},
        "version": {"If_Match": f'"{version_of(etag)}"'},
        "several": {"If_Match": f'"1", {etag}'},
        "any": {"If_Match": "*"},
        None: {},
    }[header]
    answer = send(world, method, template, **said)
    if template.endswith(("/<str:reservation_id>/cancel", "/withdraw")):
        # It has started, or is not approved: judged behind the version.
        cast.problem(answer, 409, "INVALID_STATE")
    else:
        assert answer.status_code in {200, 204}, answer.content
