"""The pages of events: what they call things by, and for whom."""

import re
from html import unescape

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from nodes.models import Node
from outbox import events
from outbox.models import Event
from pools.models import Pool
from tests.support import cast, delegates, make, supply

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("U1", "R38")]


@pytest.fixture
def pool() -> Pool:
    return make.pool(nodes=3)


def publish(*nodes: Node, slug: str = "acme") -> None:
    """A reservation of the tenant that is placed on these nodes."""
    data = {"state": "placed", "poolId": "pool_a", "start": 0, "end": 1}
    events.publish(
        "reservation.placed",
        tenant_id=cast.tenant(slug).pk,
        subject="reservation/rsv_a",
        data={**data, "nodeIds": [node.pk for node in nodes]},
    )


def details(client: Client) -> str:
    """What the list says of the newest event."""
    page = client.get("/events?types=reservation.placed").content.decode()
    (cell, *_) = re.findall(r'data-label="Details">(.*?)</td>', page, re.DOTALL)
    return unescape(cell)


def test_nodes_are_called_by_their_names_and_lead_to_where_they_are(pool: Pool) -> None:
    first, second = Node.objects.order_by("name")[:2]
    publish(first, second)
    alice = cast.session("alice")
    said = re.sub(r"<[^>]+>", "", details(alice))
    assert f"nodeIds: {first.name}, {second.name}" in said
    assert f'href="/pools/{pool.pk}"' in details(alice)
    one = Event.objects.get(type="reservation.placed").id
    page = alice.get(f"/events/{one}").content.decode()
    assert f">{first.name}</span></a>" in page
    assert f"&quot;{first.pk}&quot;" in page  # the document is as it is sent


def test_a_node_of_a_pool_that_one_may_not_read_stays_an_id(pool: Pool) -> None:
    """Of another tenant, say because an offer has ended since."""
    node = Node.objects.order_by("name")[0]
    publish(node, slug="globex")
    said = details(cast.session("mallory"))
    assert node.pk in said
    assert node.name not in said
    assert str(pool.pk) not in said


def test_a_node_or_pool_is_found_by_the_name_that_the_page_shows(pool: Pool) -> None:
    node = Node.objects.order_by("name")[0]
    for type_, about in (("node.connected", node), ("pool.changed", pool)):
        kind = type_.partition(".")[0]
        events.publish(
            type_,
            tenant_id=cast.tenant().pk,
            subject=f"{kind}/{about.pk}",
            data={"poolId": pool.pk, "name": f"this-{kind}"},
        )
    alice = cast.session("alice")
    for typed in (node.name, f"node {node.name}", f"node/{node.name}", node.pk):
        page = alice.get("/events", {"subject": typed}).content.decode()
        assert "this-node" in page, typed
        assert f'value="{typed}"' in page
        assert "this-pool" not in page
    assert "this-pool" in alice.get("/events", {"subject": pool.name}).content.decode()
    assert cast.session("mallory").get("/events", {"subject": node.name}).status_code == 400
    twin = supply.node(supply.pool())
    Node.objects.filter(pk=twin.pk).update(name=node.name)
    page = alice.get("/events", {"subject": node.name})
    assert page.status_code == 400
    assert f"node/{node.pk}" in page.content.decode()
    assert f"node/{twin.pk}" in page.content.decode()


def test_details_stand_apart_by_semicolons_and_lead_to_what_they_name() -> None:
    confirmation = delegates.question("alice")
    row = Event.objects.get(type="confirmation.requested")
    page = cast.session("alice").get("/events?types=confirmation.requested").content.decode()
    (cell,) = re.findall(r'data-label="Details">(.*?)</td>', page, re.DOTALL)
    said = re.sub(r"<[^>]+>", "", cell)
    assert "agent: trainer;\n" in said
    assert not re.search(r"\s[;,]", said)
    href = f'href="/reservations/{confirmation.resource_id}"'
    assert href in cell
    assert href in cast.session("alice").get(f"/events/{row.id}").content.decode()


def test_a_page_asks_for_all_names_at_once(pool: Pool) -> None:
    alice, nodes = cast.session("alice"), list(Node.objects.all())
    counts = []
    for node in nodes:
        publish(node, *nodes)
        with CaptureQueriesContext(connection) as asked:
            details(alice)
        counts.append(len(asked))
    assert len(set(counts)) == 1, counts


def test_people_are_called_by_their_names_within_their_tenant() -> None:
    data = {"state": "placed", "poolId": "pool_a", "removed": []}
    added = [cast.account(name).pk for name in ("bob", "mallory")]
    events.publish(
        "reservation.users-changed",
        tenant_id=cast.tenant().pk,
        subject="reservation/rsv_a",
        data={**data, "added": added},
    )
    page = cast.session("alice").get("/events").content.decode()
    assert ">bob</span>" in page
    assert added[1] in page
    assert "mallory" not in page


def test_a_pool_that_changed_is_called_by_its_name(pool: Pool) -> None:
    events.publish(
        "pool.changed",
        tenant_id=cast.tenant().pk,
        subject=f"pool/{pool.pk}",
        data={"poolId": pool.pk},
    )
    page = cast.session("alice").get("/events?types=pool.changed").content.decode()
    assert f'<a href="/pools/{pool.pk}"><span class="anywhere">pool {pool.name}</span></a>' in page
