"""The console's pages of webhooks, against real receivers."""

import html
import re
from collections.abc import Iterator

import pytest
from django.http import HttpResponse
from django.test import Client

from bettercompute.audit.models import Entry
from bettercompute.client.calls import Answer
from outbox.models import WebhookEndpoint
from outbox.webhooks import vault
from tests.support import cast, forms, receiving, webhooks, wire_server
from tests.support.wire_server import WireServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("A6")]

SECRET = re.compile(r"whsec_[A-Za-z0-9+/=]+")


@pytest.fixture
def alice() -> Client:
    return cast.session("alice", check_csrf=False)


@pytest.fixture
def receiver() -> Iterator[WireServer]:
    """A real one, which answers what ``answer`` says."""
    with wire_server.serve(lambda _: Answer(200, {}, b"thanks")) as running:
        yield running


def text(response: HttpResponse) -> str:
    return re.sub(r"\s+", " ", html.unescape(response.content.decode()))


def former(webhook: WebhookEndpoint) -> list[str]:
    """Its former secrets, the newest first."""
    return [vault.unseal(each) for each in webhook.former_secrets]


def made(browser: Client, url: str, **more: object) -> tuple[str, str]:
    """A webhook made by the form: its id, and its secret as the page shows it."""
    form = {"url": url, "description": "builds", **more}
    page = text(forms.send(browser, "/webhooks/new", form, follow=True))
    secret = SECRET.search(page)
    assert secret is not None
    return WebhookEndpoint.objects.get(url=url).pk, secret[0]


def test_the_form_makes_one_and_its_secret_is_shown_this_once(alice: Client) -> None:
    types = ["reservation.*", "reservation.active", "node.cordoned"]
    webhook_id, secret = made(alice, "https://hooks.example.com/gpus", type=types)
    stored = WebhookEndpoint.objects.get()
    assert stored.event_types == ["node.cordoned", "reservation.*"]  # the kind has the one in it
    assert secret not in stored.secret
    for path in ("/webhooks", f"/webhooks/{webhook_id}", f"/webhooks/{webhook_id}/edit"):
        page = text(alice.get(path))
        assert "https://hooks.example.com/gpus" in page
        assert "whsec_" not in page


def test_a_test_is_sent_signed_and_what_came_of_it_is_shown(
    alice: Client, receiver: WireServer
) -> None:
    webhook_id, secret = made(alice, f"{receiver.url}/hook")
    response = alice.post(f"/webhooks/{webhook_id}/test")
    assert response.status_code == 302
    page = text(alice.get(response["Location"]))
    assert "webhook.test" in page
    assert "thanks" in page
    assert "Delivered" in page
    assert "v1," not in page  # a signature is nobody's business
    [message] = receiver.received
    # The server that received it has parsed the body; these are the bytes again.
    body = WebhookEndpoint.objects.get().deliveries.get().body.encode()
    assert receiving.verified(secret, headers=message.headers, body=body) == message.body


def test_a_receiver_that_refuses_is_told_with_its_answer(
    alice: Client, receiver: WireServer
) -> None:
    receiver.answer = lambda _: Answer(503, {}, b"<b>busy</b>")
    webhook_id, _ = made(alice, f"{receiver.url}/hook")
    sent = alice.post(f"/webhooks/{webhook_id}/test")
    raw = alice.get(sent["Location"]).content.decode()
    assert "Answered 503." in raw
    assert "&lt;b&gt;busy&lt;/b&gt;" in raw  # what a receiver answers is text, nothing else
    listed = text(alice.get(f"/webhooks/{webhook_id}?state=failed"))
    assert "webhook.test" in listed
    assert "webhook.test" not in text(alice.get(f"/webhooks/{webhook_id}?state=delivered"))


@pytest.mark.case(31)
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"url": "https://10.0.0.1/"}, "10.0.0.1 is a private address"),
        ({"url": ""}, "at least 1 character"),
        (
            {"url": "https://hooks.example.com/", "subject": "Node 7"},
            "must be like rsv_… or reservation/rsv_",
        ),
        ({"url": "https://hooks.example.com/", "type": ["pool.exploded"]}, "no event type"),
        ({"url": "https://hooks.example.com/", "description": "x" * 201}, "at most 200"),
    ],
)
def test_what_is_wrong_is_said_beside_its_field(
    alice: Client, given: dict[str, object], told: str
) -> None:
    response = forms.send(alice, "/webhooks/new", given)
    assert response.status_code == 400
    page = text(response).lower()
    assert told in page
    assert 'class="error"' in page
    assert not WebhookEndpoint.objects.exists()


def test_it_is_changed_disabled_enabled_rotated_and_deleted(alice: Client) -> None:
    webhook_id, secret = made(alice, "https://hooks.example.com/gpus")
    here = f"/webhooks/{webhook_id}"
    change = {"url": "https://hooks.example.com/other", "type": ["pool.*"], "subject": "pool/*"}
    alice.post(f"{here}/edit", change | {"subject": "node_7"})
    assert WebhookEndpoint.objects.get().subject == "node/node_7"
    assert alice.post(f"{here}/edit", change)["Location"] == here
    page = text(alice.get(here))
    assert "https://hooks.example.com/other" in page
    assert "pool.*" in page
    alice.post(f"{here}/disable")
    page = text(alice.get(here))
    assert "Disabled" in page
    assert "Enable it first." in page
    refused = alice.post(f"{here}/redeliver", {"span": "1d"})
    assert refused.status_code == 409
    assert "enable it first" in text(refused)
    alice.post(f"{here}/enable")
    assert "For 24 hours messages are signed with the old one, too" in text(
        alice.get(f"{here}/rotate")
    )
    rotated = SECRET.search(text(alice.post(f"{here}/rotate", follow=True)))
    assert rotated is not None
    assert rotated[0] != secret
    assert "sign too, until" in text(alice.get(here))
    assert "What it was sent is forgotten" in text(alice.get(f"{here}/delete"))
    assert alice.post(f"{here}/delete")["Location"] == "/webhooks"
    assert alice.get(here).status_code == 404


def test_who_presses_rotate_twice_rotates_once(alice: Client) -> None:
    """Or nobody knew which of the two to give to the receiver."""
    webhook_id, secret = made(alice, "https://hooks.example.com/gpus")
    question = text(alice.get(f"/webhooks/{webhook_id}/rotate"))
    action = re.search(r'action="([^"]*rotate[^"]*)"', question)
    assert action is not None
    assert alice.post(action[1]).status_code == 302
    assert alice.post(action[1]).status_code == 409
    assert former(WebhookEndpoint.objects.get()) == [secret]


def test_a_leak_ends_every_former_secret_and_a_rotation_too_many_none(alice: Client) -> None:
    webhook_id, _ = made(alice, "https://hooks.example.com/gpus")
    here = f"/webhooks/{webhook_id}"
    for _ in range(3):
        assert alice.post(f"{here}/rotate").status_code == 302
    kept = former(WebhookEndpoint.objects.get())
    assert "sign too, 3 until tomorrow" in text(alice.get(here))
    asked, tried = alice.get(f"{here}/rotate"), alice.post(f"{here}/rotate")
    assert "Not possible now" in text(asked)
    assert "That did not work" in text(tried)
    for page in (asked, tried):
        assert page.status_code == 409
        assert "3 former secrets of it sign still, the first of them until tomorrow" in text(page)
    assert former(WebhookEndpoint.objects.get()) == kept
    question = text(alice.get(f"{here}/rotate?leaked=1"))
    action = re.search(r'action="([^"]*rotate[^"]*)"', question)
    assert action is not None
    assert SECRET.search(text(alice.post(action[1], follow=True)))
    assert former(WebhookEndpoint.objects.get()) == []


def test_what_failed_is_sent_again_one_or_a_span(alice: Client, receiver: WireServer) -> None:
    webhook_id, _ = made(alice, f"{receiver.url}/hook")
    assert "Nothing failed" in text(
        alice.post(f"/webhooks/{webhook_id}/redeliver", {"span": "1d"}, follow=True)
    )
    assert alice.post(f"/webhooks/{webhook_id}/redeliver", {"span": "1y"}).status_code == 400
    sent = alice.post(f"/webhooks/{webhook_id}/test")
    again = alice.post(f"{sent['Location']}/redeliver")
    assert again["Location"] == sent["Location"]
    assert "Pending" in text(alice.get(sent["Location"]))


def test_a_delivery_leads_to_its_event(alice: Client, receiver: WireServer) -> None:
    webhook_id, _ = made(alice, f"{receiver.url}/hook", type=["pool.*"])
    webhooks.publish()
    webhooks.dispatched()
    [row] = WebhookEndpoint.objects.get().deliveries.all()
    assert "pool.created" in text(alice.get(f"/webhooks/{webhook_id}"))
    page = alice.get(f"/webhooks/{webhook_id}/deliveries/{row.pk}").content.decode()
    [href] = re.findall(rf'href="(/events/{row.event_id})"', page)
    assert alice.get(href).status_code == 200


@pytest.mark.case(24)
def test_nobody_else_gets_to_it(alice: Client, receiver: WireServer) -> None:
    webhook_id, _ = made(alice, f"{receiver.url}/hook")
    sent = alice.post(f"/webhooks/{webhook_id}/test")["Location"]
    mallory = cast.session("mallory", check_csrf=False)
    assert receiver.url not in text(mallory.get("/webhooks"))
    here = f"/webhooks/{webhook_id}"
    for path in (here, f"{here}/edit", f"{here}/rotate", f"{here}/delete", sent):
        assert mallory.get(path).status_code == 404
    for verb in ("edit", "test", "enable", "disable", "rotate", "delete"):
        assert mallory.post(f"{here}/{verb}", {"url": "https://a.example.com/"}).status_code == 404
    assert mallory.post(f"{here}/redeliver", {"span": "1d"}).status_code == 404
    assert mallory.post(f"{sent}/redeliver").status_code == 404
    assert WebhookEndpoint.objects.get().url == f"{receiver.url}/hook"
    assert len(receiver.received) == 1


def test_a_member_manages_their_own_and_may_look_at_others(alice: Client) -> None:
    webhook_id, _ = made(alice, "https://hooks.example.com/gpus")
    bob = cast.session("bob", check_csrf=False)
    assert "https://hooks.example.com/gpus" in text(bob.get(f"/webhooks/{webhook_id}"))
    for verb in ("rotate", "delete", "test", "disable"):
        refused = bob.post(f"/webhooks/{webhook_id}/{verb}")
        assert refused.status_code == 409
        assert "Members manage their own webhooks" in text(refused)
    stored = WebhookEndpoint.objects.get()
    assert (stored.state, stored.former_secrets) == ("enabled", [])
    own, _ = made(bob, "https://hooks.example.com/bob")
    assert bob.post(f"/webhooks/{own}/delete")["Location"] == "/webhooks"


@pytest.mark.parametrize("verb", ["rotate", "delete", "test", "disable", "redeliver", "one again"])
def test_a_refusal_that_a_page_shows_is_in_the_audit(
    alice: Client, receiver: WireServer, verb: str
) -> None:
    webhook_id, _ = made(alice, f"{receiver.url}/hook")
    sent = alice.post(f"/webhooks/{webhook_id}/test")["Location"]
    path = f"{sent}/redeliver" if verb == "one again" else f"/webhooks/{webhook_id}/{verb}"
    refused = cast.session("bob", check_csrf=False).post(path, {"span": "1d"})
    assert refused.status_code == 409
    entry = Entry.objects.get(request_id=refused["X-Request-Id"])
    assert (entry.username, entry.outcome, entry.object_id) == ("bob", "denied", webhook_id)
    assert entry.action == "compute:webhooks:manage"


def test_the_platforms_are_the_operators_business(alice: Client) -> None:
    form = {"url": "https://hooks.example.com/all", "scope": "platform"}
    assert forms.send(alice, "/webhooks/new", form).status_code == 403
    assert "Of the platform" not in text(alice.get("/webhooks/new"))
    olga = cast.session("olga", check_csrf=False)
    assert "Of the platform" in text(olga.get("/webhooks/new"))
    webhook_id, _ = made(olga, "https://hooks.example.com/all", scope="platform")
    assert WebhookEndpoint.objects.get().tenant_id is None
    assert "events of all tenants" in text(olga.get("/webhooks"))
    assert alice.get(f"/webhooks/{webhook_id}").status_code == 404
