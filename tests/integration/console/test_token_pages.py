"""The console's pages of API tokens."""

import html
import re

import pytest
from django.http import HttpResponse
from django.test import Client

from bettercompute.audit.models import Entry
from bettercompute.iam import tokens
from bettercompute.iam.models import ApiToken
from tests.conftest import SimulatedClock
from tests.support import cast, forms

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("U6")]

PLAINTEXT = re.compile(r"bct_[0-9a-z]{26}_[a-z2-7]{52}")


@pytest.fixture
def bob() -> Client:
    return cast.session("bob", check_csrf=False)


def text(response: HttpResponse) -> str:
    plain = re.sub(r"<[^>]+>", " ", response.content.decode())
    return re.sub(r"\s+", " ", html.unescape(plain))


def test_its_text_is_shown_by_the_page_that_the_form_leads_to_and_never_again(bob: Client) -> None:
    made = forms.send(bob, "/tokens/new", {"name": "nightly", "lifetime": "7d"})
    token = ApiToken.objects.get()
    assert (made.status_code, made["Location"]) == (302, f"/tokens/{token.pk}")
    page = bob.get(made["Location"])
    shown = PLAINTEXT.search(page.content.decode())
    assert shown is not None
    assert page["Cache-Control"] == "no-store, private"
    found = tokens.find(shown[0])
    assert (found.identity.token_name, found.account.username) == ("nightly", "bob")
    # A reload, Back and Forward all ask for this page again.
    again = text(bob.get(made["Location"]))
    assert "nightly" in again
    assert "bct_" not in again
    assert ApiToken.objects.count() == 1


def test_what_leads_there_is_of_that_page_that_person_and_that_minute(bob: Client) -> None:
    made = forms.send(bob, "/tokens/new", {"name": "nightly", "lifetime": ""})
    cookie = made.cookies["shown-once"]
    assert (cookie["path"], cookie["max-age"]) == (made["Location"], 60)
    assert (cookie["httponly"], cookie["samesite"]) == (True, "Strict")
    other, _ = tokens.create(cast.caller("bob"), name="other")
    assert "bct_" not in text(bob.get(f"/tokens/{other.pk}"))
    alice = cast.session("alice")  # an admin: the page is hers to see, the secret is not
    alice.cookies["shown-once"] = cookie.value
    page = text(alice.get(made["Location"]))
    assert "nightly" in page
    assert "bct_" not in page


def test_how_long_it_works_is_chosen(bob: Client, clock: SimulatedClock) -> None:
    forms.send(bob, "/tokens/new", {"name": "week", "lifetime": "7d"})
    forms.send(bob, "/tokens/new", {"name": "endless", "lifetime": ""})
    assert ApiToken.objects.get(name="endless").expires_at is None
    clock.advance("8d")
    assert "week" not in text(bob.get("/tokens"))
    assert "endless" in text(bob.get("/tokens"))
    ended = text(bob.get("/tokens?state=all"))
    assert "week Expired" in ended


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"name": "  "}, "at least 1 character"),
        ({"name": "x" * 101}, "at most 100 characters"),
        ({"name": "ci", "lifetime": "9y"}, "lifetime: is one of"),
    ],
)
def test_what_is_wrong_is_said_where_it_is(bob: Client, given: dict[str, str], told: str) -> None:
    response = bob.post("/tokens/new", given)
    assert response.status_code == 400
    assert told in text(response)
    assert not ApiToken.objects.exists()


def test_only_an_operator_gives_one_a_limit_of_its_own(bob: Client) -> None:
    assert 'name="rate"' not in bob.get("/tokens/new").content.decode()
    assert forms.send(bob, "/tokens/new", {"name": "ci", "rate": "500"}).status_code == 403
    assert not ApiToken.objects.exists()
    olga = cast.session("olga", check_csrf=False)
    wrong = text(olga.post("/tokens/new", {"name": "ci", "rate": "many"}))
    assert "Must be a whole number, at most 1,000,000." in wrong
    made = forms.send(olga, "/tokens/new", {"name": "ci", "rate": "500"}, follow=True)
    assert "500 a second" in text(made)
    assert ApiToken.objects.get().requests_per_second == 500


def test_members_see_their_own_and_an_admin_ends_anyones(bob: Client) -> None:
    token, _ = tokens.create(cast.caller("bob"), name="bob's")
    here = f"/tokens/{token.pk}"
    for stranger in ("carol", "mallory"):
        session = cast.session(stranger, check_csrf=False)
        assert "bob's" not in text(session.get("/tokens"))
        assert session.get(here).status_code == 404
        assert session.get(f"{here}/revoke").status_code == 404
        assert session.post(f"{here}/revoke").status_code == 404
    alice = cast.session("alice", check_csrf=False)
    assert "bob's bob" in text(alice.get("/tokens"))
    question = text(alice.get(f"{here}/revoke"))
    assert "It has never been used." in question
    assert alice.post(f"{here}/revoke")["Location"] == "/tokens"
    assert "Revoked" in text(bob.get(here))
    assert f"{here}/revoke" not in bob.get(here).content.decode()
    token.refresh_from_db()
    assert token.revoked_at is not None
    entry = Entry.objects.filter(action="iam:tokens:revoke", outcome="allowed").get()
    assert entry.object_id == token.pk


def test_the_list_goes_on(bob: Client) -> None:
    for number in range(51):
        tokens.create(cast.caller("bob"), name=f"one-{number:02}")
    first = bob.get("/tokens").content.decode()
    assert "one-01" in first
    assert "one-00" not in first
    older = re.search(r'href="(/tokens\?after=[^"]+)"', first)
    assert older is not None
    rest = text(bob.get(html.unescape(older[1])))
    assert "one-00" in rest
    assert "one-01" not in rest
