"""A little of everything that the operators' registers show, made as the product makes it."""

import json
from dataclasses import dataclass
from datetime import timedelta

import pytest
from django.db import transaction
from django.test import Client

from bettercompute import acts, clock
from bettercompute.acts import Thing
from bettercompute.audit import entries, sealing
from bettercompute.coordination import heartbeats, leases, workqueue
from bettercompute.iam import policies
from bettercompute.iam.models import ApiToken
from bettercompute.operators import audit
from bettercompute.wire.capacity_offers import CapacityOffersRequest
from nodes import enrollment, maintenance
from nodes.models import Node
from nodes.protocol import signing
from outbox import dispatch
from pools import budgets, capacity_offers, catalogue
from pools.budgets import NewBudget
from pools.models import Pool
from reservations.feeds import keeping
from reservations.models import Reservation
from tests.support import cast, delegates, make, webhooks

HOUR = timedelta(hours=1)
FORBID = 'forbid (principal, action == Action::"compute:reservations:create", resource);'


@dataclass(frozen=True, slots=True)
class World:
    """What there is."""

    pool: Pool
    node: Node
    active: Reservation
    pending: Reservation
    token: ApiToken
    secret: str


class Deaf:
    """A sink that takes everything."""

    def deliver(self, events: object) -> None:
        """Forget it."""


@pytest.fixture(scope="module", autouse=True)
def world(module_database: None) -> World:
    """Acme with a pool, a node, an active and a waiting reservation; and what surrounds them."""
    pool = make.pool(nodes=1, quota_gpus=64)
    node = Node.objects.get(pool=pool)
    alice = cast.caller("alice")
    active = make.active(alice, pool, gpus=2)
    pending = make.reservation(alice, pool, gpus=8)
    assert pending.state == "pending"
    make.series(alice, pool, gpus=9)  # which no node has: it waits, and keeps nobody out
    catalogue.offer(pool, cast.tenant("globex"))
    budgets.create(cast.tenant().pk, NewBudget(name="lab", gpu_milli_hours=10**6))
    token, secret = cast.token("alice")
    policies.create(alice, draft=policies.Draft("no-more", FORBID, enabled=False))
    enrolment = enrollment.create(node_id=node.pk)
    enrollment.enroll(token=enrolment.token, public_key=signing.NodeKey.generate().public_key)
    start = clock.now() + timedelta(days=1_000)
    at = maintenance.place(node_id=node.pk)
    assert at is not None
    maintenance.announce(
        at, start=start, end=start + HOUR, reason="new fans", account_id=alice.account_id
    )
    wanted = make.request(alice, pool, gpus=2).model_dump(mode="json", by_alias=True)
    asked = CapacityOffersRequest.model_validate_json(
        json.dumps({name: value for name, value in wanted.items() if name != "offerId"})
    )
    assert capacity_offers.offers(alice, asked).offers
    keeping.create(alice, pool_id=pool.pk)
    delegates.question("alice", active)
    leases.take("shard:3")
    heartbeats.beat("worker")
    with transaction.atomic():
        workqueue.enqueue("reservation", pending.pk)
    with audit.act(cast.account("olga"), node, "Look", why="it was there") as entry:
        entry.done("seen")
    with acts.by_command("look"), transaction.atomic():
        entries.record("nodes:look", Thing("node", node.pk), tenant_id=cast.tenant().pk)
    sealing.seal(make.fence)
    dispatch.drain("deaf", Deaf(), fence=make.fence)
    webhooks.sent(webhooks.endpoint("https://hooks.example.com/")[0])
    return World(pool, node, active, pending, token, secret)


@pytest.fixture
def olga() -> Client:
    """The operator, signed in."""
    return cast.session("olga", check_csrf=False)
