"""A form that makes something makes one, however often it is sent; a secret is shown once (U6)."""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from django.db import connections
from django.http import HttpResponse
from django.test import Client

from bettercompute.iam.models import ApiToken, Policy
from outbox.models import WebhookEndpoint
from reservations.models import CalendarFeed
from tests.support import cast, forms

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("U6")]

RULE = "forbid(principal, action, resource) when { context.gpus > 8 };"


@dataclass(frozen=True)
class Thing:
    """What a form makes."""

    path: str
    form: dict[str, str]
    count: Callable[[], int]
    secret: str  # what its secret looks like; empty: it has none


HOOK = {"url": "https://hooks.example.com/gpus"}
THINGS = [
    Thing("/tokens/new", {"name": "ci", "lifetime": ""}, ApiToken.objects.count, "bct_[0-9a-z_]+"),
    Thing("/webhooks/new", HOOK, WebhookEndpoint.objects.count, r"whsec_[\w/+=]+"),
    Thing("/calendar-feeds", {"pool": ""}, CalendarFeed.objects.count, "bcf_[0-9a-z_]+"),
    Thing(
        "/policies/new",
        {"name": "team", "text": RULE, "enabled": "on", "do": "save"},
        Policy.objects.count,
        "",
    ),
]
every_thing = pytest.mark.parametrize("thing", THINGS, ids=lambda thing: thing.path)


@pytest.fixture
def alice() -> Client:
    return cast.session("alice", check_csrf=False)


def shown(thing: Thing, page: HttpResponse) -> set[str]:
    assert page.status_code == 200
    return set(re.findall(thing.secret, page.content.decode())) if thing.secret else set()


@every_thing
def test_a_second_press_leads_to_the_same_thing_and_its_secret(alice: Client, thing: Thing) -> None:
    """Without JavaScript the browser gives up the first answer, and with it the secret."""
    given = {**thing.form, "once": forms.key(alice, thing.path)}
    first = alice.post(thing.path, given)
    alice.cookies.pop("shown-once", None)  # it never came
    second = alice.post(thing.path, given)
    assert (second.status_code, second["Location"]) == (302, first["Location"])
    assert thing.count() == 1
    page = alice.get(second["Location"])
    assert '<div class="note note-blue" role="status">The form was sent' in page.content.decode()
    assert len(shown(thing, page)) == bool(thing.secret)


@every_thing
def test_once_its_secret_has_been_shown_no_press_shows_it_again(
    alice: Client, thing: Thing
) -> None:
    given = {**thing.form, "once": forms.key(alice, thing.path)}
    page = alice.post(thing.path, given, follow=True)
    assert len(shown(thing, page)) == bool(thing.secret)
    again = alice.post(thing.path, given, follow=True)
    assert shown(thing, again) == set()
    assert thing.count() == 1


@every_thing
def test_two_presses_at_once_make_one(thing: Thing) -> None:
    alice = cast.session("alice", check_csrf=False)
    given = {**thing.form, "once": forms.key(alice, thing.path)}

    def press(_: int) -> HttpResponse:
        try:
            browser = Client(raise_request_exception=False)
            browser.cookies["sessionid"] = alice.cookies["sessionid"].value
            return browser.post(thing.path, given)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as several:
        answers = list(several.map(press, range(4)))
    assert {answer.status_code for answer in answers} == {302}
    assert len({answer["Location"] for answer in answers}) == 1
    assert thing.count() == 1


@every_thing
def test_a_key_is_of_one_form_and_one_person(alice: Client, thing: Thing) -> None:
    foreign = forms.key(cast.session("mallory"), thing.path)
    other = forms.key(alice, next(each.path for each in THINGS if each is not thing))
    for key in ("", foreign, other, f"{other}x"):
        refused = alice.post(thing.path, {**thing.form, "once": key})
        assert refused.status_code in {400, 409}
        assert "The form came without its key" in refused.content.decode()
    assert thing.count() == 0


@every_thing
def test_a_form_opened_twice_makes_two(alice: Client, thing: Thing) -> None:
    forms.send(alice, thing.path, thing.form)
    other = {**thing.form, "name": "another"}  # names of policies are distinct
    forms.send(alice, thing.path, other)
    assert thing.count() == 2
