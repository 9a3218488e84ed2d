"""A person answers their agents in the console, without JavaScript."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from bettercompute import errors
from bettercompute.iam import tokens
from reservations import admission, ending, sharing
from reservations.confirming import deciding
from reservations.extending import extension
from reservations.models import Confirmation, Reservation
from reservations.pages import confirmations_console
from reservations.sharing import Change
from tests.support import cast, delegates, make
from tests.support.delegates import CREATE, EXTEND, RELEASE, SHARE

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("R36")]


@pytest.fixture
def alice():
    return cast.session("alice")


@pytest.fixture
def agent():
    return delegates.agent("alice", CREATE)


def ask(agent, pool, key="k", **changes):
    wanted = make.request(agent.caller, pool, **changes)
    with pytest.raises(errors.ConfirmationRequired) as caught:
        admission.admit(agent.caller, wanted, idempotency_key=key)
    return delegates.asked(caught.value)


def text(response):
    return re.sub(r"<[^>]+>|\s+", " ", response.content.decode())


def press(client, confirmation, verb, **fields):
    """The button of the page, with the token of its form."""
    page = client.get("/confirmations").content.decode()
    form = page.split(f"/confirmations/{confirmation.pk}/{verb}")[1]
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', form)[1]
    path = f"/confirmations/{confirmation.pk}/{verb}"
    return client.post(path, {"csrfmiddlewaretoken": token, **fields}, follow=True)


def test_the_page_says_what_is_wanted_and_every_page_that_something_waits(alice, agent):
    two = [{"class": "gpu", "count": 2}]
    pool = make.pool(quota_gpus=8)
    confirmation = ask(agent, pool, devices=two, duration="8h")
    assert "1 to confirm" in text(alice.get("/pools"))
    shown = text(alice.get("/confirmations"))
    assert f"Reserve 2 GPUs in {pool.name} for 8h, as soon as it fits" in shown
    assert re.search(r"trainer\s*, for alice, asked", shown)
    assert re.search(r"Without an answer\s+It lapses .{5,20}, and nothing is done", shown)
    assert "2 of 8" in shown, "the quota as it would be"
    assert "Approving does nothing by itself" in shown
    reservation = alice.get(f"/reservations/{confirmation.resource_id}")
    assert "agent trainer, for alice" in text(reservation)
    assert f"/confirmations/{confirmation.pk}" in reservation.content.decode()
    home = alice.get("/")
    assert f"trainer wants to reserve 2 GPUs in {pool.name}" in text(home)
    assert f"/confirmations/{confirmation.pk}" in home.content.decode()
    for name in ("bob", "mallory"):
        other = cast.session(name)
        assert "to confirm" not in text(other.get("/pools"))
        assert other.get(f"/confirmations/{confirmation.pk}").status_code == 404


def test_approving_and_denying_by_the_buttons(alice, agent):
    pool = make.pool()
    first, second = ask(agent, pool, "a"), ask(agent, pool, "b")
    assert "Approved. trainer can send its request again now." in text(
        press(alice, first, "approve")
    )
    denied = press(alice, second, "deny", reason="tomorrow, please")
    assert "Denied. trainer is told so." in text(denied)
    assert "tomorrow, please" in text(denied)
    assert set(Reservation.objects.values_list("state", flat=True)) == {
        "awaiting-confirmation",
        "denied",
    }
    assert "to confirm" not in text(alice.get("/pools"))
    wanted = make.request(agent.caller, pool)
    admission.admit(agent.caller, wanted, idempotency_key="a")
    assert Confirmation.objects.get(pk=first.pk).state == "used"


def news(client, page):
    """What the page, as it was shown, fetches by itself; None while that is as it was."""
    path = re.search(r'hx-get="(/confirmations[^"]+)"', page)[1]
    answer = client.get(path, HTTP_HX_REQUEST="true")
    return None if answer.status_code == 204 else answer.content.decode()


@pytest.mark.rule("U7")
def test_the_page_renews_itself_and_the_number_in_the_frame(alice, agent, clock):
    pool = make.pool()
    page = alice.get("/confirmations").content.decode()
    assert news(alice, page) is None
    confirmation = ask(agent, pool)
    asked = news(alice, page)
    assert f"/confirmations/{confirmation.pk}/approve" in asked
    assert "1 to confirm" in asked
    clock.advance("1m")
    assert news(alice, asked) is None, "time that is left is counted by the page"
    single = alice.get(f"/confirmations/{confirmation.pk}").content.decode()
    deciding.approve(cast.caller("alice"), confirmation_id=confirmation.pk)
    approved = news(alice, asked)
    assert f"/confirmations/{confirmation.pk}/withdraw" in approved
    assert "to confirm" not in approved
    single = news(alice, single)
    assert "/withdraw" in single
    delegates.create(agent, pool)
    for used in (news(alice, approved), news(alice, single)):
        assert "/withdraw" not in used
        assert "Done" in used
    assert (
        cast.session("mallory").get(f"/confirmations/{confirmation.pk}/status").status_code == 404
    )


def test_an_approval_is_withdrawn_by_its_button(alice, agent):
    confirmation = ask(agent, make.pool())
    empty = alice.get("/confirmations").content.decode()
    assert "Approved, and not done yet" not in empty
    press(alice, confirmation, "approve")
    shown = text(alice.get(f"/confirmations/{confirmation.pk}"))
    assert "unless you withdraw it before" in shown
    withdrawn = press(alice, confirmation, "withdraw", reason="not today")
    assert "Withdrawn. trainer may not do it any more." in text(withdrawn)
    assert "not today" in text(withdrawn)
    assert f"/confirmations/{confirmation.pk}/withdraw" not in withdrawn.content.decode()
    assert Reservation.objects.get().state == "denied"
    shown = text(alice.get(f"/confirmations/{confirmation.pk}"))
    assert "It was approved and taken back" in shown
    assert "Denied" not in shown + text(alice.get("/confirmations"))
    own = text(alice.get(f"/reservations/{confirmation.resource_id}"))
    assert "Its owner withdrew the approval before it was used" in own
    assert own.count("Withdrawn") >= 3, "in its title, by its name and as its last step"
    assert "Denied" not in own


def test_a_denied_reservation_says_who_denied_it_and_why_to_whom_it_concerns():
    agent, pool = delegates.agent("bob", CREATE), make.pool()
    confirmation = ask(agent, pool)
    deciding.deny(cast.caller("bob"), confirmation_id=confirmation.pk, reason="tomorrow, please")
    path = f"/reservations/{confirmation.resource_id}"
    for who in ("alice", "bob"):
        page = cast.session(who).get(path).content.decode()
        assert (
            f'<a href="/confirmations/{confirmation.pk}">bob denied it: tomorrow, please</a>'
            in page
        )
        assert "policy" not in page.partition("The same over the API")[0]
    carol = cast.session("carol").get(path).content.decode()
    assert "<dd>bob denied it</dd>" in carol
    assert "tomorrow" not in carol
    with pytest.raises(errors.AccessDenied) as refused:
        admission.admit(agent.caller, make.request(agent.caller, pool), idempotency_key="k")
    assert refused.value.details["confirmationId"] == confirmation.pk


def test_where_nothing_waits_it_says_how_to_let_a_program_act(alice):
    page = alice.get("/confirmations").content.decode()
    assert 'href="/tokens/new"' in page


def test_more_cards_cost_no_more_statements(alice):
    pool, costs = make.pool(), []
    for answer in (lambda *_, **__: None, deciding.approve, deciding.approve):
        confirmation = ask(delegates.agent("alice", CREATE), pool, make.key())
        answer(cast.caller("alice"), confirmation_id=confirmation.pk)
        with CaptureQueriesContext(connection) as statements:
            assert alice.get("/confirmations").content.count(b"quota after it") == len(costs) + 1
        costs.append(len(statements))
    assert len(set(costs)) == 1


def test_only_who_may_read_what_was_asked_is_led_there(clock):
    """Any member reads the reservation and its series; the person and an admin, the question."""
    agent, pool = delegates.agent("bob", CREATE), make.pool()
    rule = {"rule": "FREQ=DAILY;COUNT=2", "timeZone": "UTC"}
    wanted = {"start": clock.now_ms() + 86_400_000, "recurrence": rule}
    confirmation = ask(agent, pool, **wanted)
    paths = [f"/reservations/{confirmation.resource_id}"]
    assert led(confirmation, paths) == {"alice": [True], "bob": [True], "carol": [False]}
    deciding.approve(cast.caller("bob"), confirmation_id=confirmation.pk)
    paths.append(f"/series/{delegates.create(agent, pool, **wanted).series_id}")
    both = {"alice": [True, True], "bob": [True, True], "carol": [False, False]}
    assert led(confirmation, paths) == both
    Confirmation.objects.all().delete()  # as after its time
    assert led(confirmation, paths)["bob"] == [False] * 2


def led(confirmation, paths):
    """Of these pages, which lead whom to it."""
    href = f'"/confirmations/{confirmation.pk}"'.encode()
    return {
        who: [href in cast.session(who).get(path).content for path in paths]
        for who in ("alice", "bob", "carol")
    }


def test_what_is_asked_of_a_reservation_says_of_which_and_what_comes_of_it(alice, clock):
    agent, pool = delegates.agent("alice", EXTEND, RELEASE, SHARE), make.pool()
    made = make.reservation(cast.caller("alice"), pool, duration="8h")
    longer = extension.ExtendRequest(tenant_id=cast.tenant().pk, by="2h")
    for act in (
        lambda: ending.release(agent.caller, reservation_id=made.pk),
        lambda: extension.extend(agent.caller, longer, reservation_id=made.pk, idempotency_key="e"),
        lambda: sharing.change(
            agent.caller, Change(add=(cast.account("bob").pk,)), reservation_id=made.pk
        ),
    ):
        delegates.refused(act)
    shown, thing = text(alice.get("/confirmations")), f"1 × H100 in {pool.name}"
    assert f"Release {thing} now" in shown
    assert "What runs on it stops" in shown
    assert f"Extend {thing} until" in shown
    assert "2 h, 2 GPU-hours more" in shown
    assert f"Share {thing} with bob" in shown
    assert shown.index("Release ") < shown.index("Extend ") < shown.index("Share "), "as they lapse"
    clock.advance("31m")
    over = text(alice.get("/confirmations"))
    assert f"Release {thing} now" in over
    assert "Without an answer" not in over


def test_what_nobody_can_come_back_for_is_denied_or_lapses(alice, agent):
    confirmation = ask(agent, make.pool())
    tokens.revoke(cast.caller("alice"), agent.token.pk)
    shown = alice.get("/confirmations").content.decode()
    assert "The agent’s token has ended" in shown
    assert f"/confirmations/{confirmation.pk}/approve" not in shown
    with pytest.raises(errors.InvalidState, match="token has ended"):
        deciding.approve(cast.caller("alice"), confirmation_id=confirmation.pk)
    press(alice, confirmation, "deny")
    assert Reservation.objects.get().state == "denied"


def test_what_others_are_asked_hides_nothing_of_ones_own(alice, agent, monkeypatch):
    monkeypatch.setattr(confirmations_console, "OPEN_SHOWN_MAX", 1)
    own = ask(agent, make.pool())
    delegates.question("bob")
    shown = alice.get("/confirmations").content.decode()
    assert f"/confirmations/{own.pk}/approve" in shown
    assert "Only bob decides on this" in shown


def test_a_button_without_its_token_or_too_late_changes_nothing(alice, agent, clock):
    confirmation = ask(agent, make.pool())
    assert alice.post(f"/confirmations/{confirmation.pk}/approve").status_code == 403
    page = alice.get("/confirmations").content.decode()
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)[1]
    clock.advance("31m")
    late = alice.post(
        f"/confirmations/{confirmation.pk}/approve", {"csrfmiddlewaretoken": token}, follow=True
    )
    assert "Its time is over" in text(late)
    assert "Nothing awaits your answer" in text(late)
    assert Confirmation.objects.get().state == "open", "a worker ends it"
