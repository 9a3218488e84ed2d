"""A person answers their agents in the console, without JavaScript."""

import re

import pytest

from bettercompute import errors
from reservations import admission
from reservations.models import Confirmation, Reservation
from tests.support import cast, delegates, make
from tests.support.delegates import CREATE

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
    confirmation = ask(agent, make.pool(quota_gpus=8), devices=two, duration="8h")
    assert "1 to confirm" in text(alice.get("/pools"))
    shown = text(alice.get("/confirmations"))
    assert "Reserve 2 GPUs for 8h, as soon as it fits" in shown
    assert "trainer, for alice" in shown
    assert "2 of 8" in shown, "the quota as it would be"
    assert "Approving does nothing by itself" in shown
    reservation = alice.get(f"/reservations/{confirmation.resource_id}")
    assert "agent trainer, for alice" in text(reservation)
    assert f"/confirmations/{confirmation.pk}" in reservation.content.decode()
    assert f"/confirmations/{confirmation.pk}" in alice.get("/").content.decode()
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
