"""A form that makes something makes one, however often it is sent; a secret is shown once (U6)."""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import connections
from django.http import HttpResponse
from django.test import Client

from bettercompute.iam import tokens
from bettercompute.iam.models import ApiToken, Policy
from outbox.models import WebhookEndpoint
from outbox.webhooks.endpoints import ENDPOINTS
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


def made_unseen(browser: Client, thing: Thing) -> tuple[dict[str, str], str]:
    """What was sent to make it, and its id; its secret never came."""
    given = {**thing.form, "once": forms.key(browser, thing.path)}
    assert browser.post(thing.path, given).status_code == 302
    browser.cookies.pop("shown-once", None)
    return given, given["once"].partition(".")[0]


@pytest.mark.parametrize(
    ("thing", "ended"),
    [
        (THINGS[0], "/tokens/{}/revoke"),
        (THINGS[1], "/webhooks/{}/rotate"),
        (THINGS[2], "/calendar-feeds/{}/revoke"),
    ],
)
def test_a_secret_that_has_been_ended_since_is_not_shown(
    alice: Client, thing: Thing, ended: str
) -> None:
    given, made = made_unseen(alice, thing)
    assert alice.post(ended.format(made)).status_code == 302
    alice.cookies.pop("shown-once", None)
    again = alice.post(thing.path, given, follow=True)
    assert shown(thing, again) == set()


@pytest.mark.parametrize(
    ("thing", "ended"),
    [(THINGS[1], "/webhooks/{}/delete"), (THINGS[3], "/policies/{}/delete")],
)
def test_a_form_makes_no_other_of_what_is_gone(alice: Client, thing: Thing, ended: str) -> None:
    given, made = made_unseen(alice, thing)
    assert alice.post(ended.format(made)).status_code == 302
    ENDPOINTS.run("drop")  # what upkeep does
    again = alice.post(thing.path, given)
    assert (again.status_code, thing.count()) == (409, 0)
    assert "What this form made is no more" in again.content.decode()


@every_thing
def test_no_other_session_of_the_person_sends_the_form(alice: Client, thing: Thing) -> None:
    """It would show the secret once more: what was shown is the session's to remember."""
    given, _ = made_unseen(alice, thing)
    refused = cast.session("alice", check_csrf=False).post(thing.path, given)
    assert refused.status_code in {400, 409}
    assert "The form came without its key" in refused.content.decode()


def test_the_secret_is_the_same_where_the_key_that_signs_was_replaced_between(
    alice: Client, settings: Any
) -> None:
    given, made = made_unseen(alice, THINGS[0])
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "another-" + "y" * 50
    (text,) = shown(THINGS[0], alice.post(THINGS[0].path, given, follow=True))
    assert tokens.find(text).identity.token_id == made
