"""The main journeys, in a real browser, as a person makes them (U11)."""

import re
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Page, expect

from nodes.models import ReportedState
from pools.models import Pool
from reservations.models import Reservation
from tests.conftest import SimulatedClock
from tests.support import cast, delegates, make

pytestmark = pytest.mark.django_db(transaction=True)
Open = Callable[..., Page]


@pytest.fixture
def pool() -> Pool:
    return make.pool(nodes=2, name="main")


def sign_in(page: Page, name: str) -> None:
    page.get_by_label("Username").fill(name)
    page.get_by_label("Password").fill(name)
    page.get_by_role("button", name="Sign in").click()


@pytest.mark.rule("U11", "U2", "U3")
def test_reserve_now_see_it_become_active_and_release_it(
    open_page: Open, pool: Pool, complaints: list[str]
) -> None:
    cast.account("alice")
    page = open_page(None, "/reserve")
    sign_in(page, "alice")
    expect(page.get_by_role("heading", name="Reserve GPUs")).to_be_visible()
    expect(page.locator("input[name=zone]")).to_have_value("Europe/Berlin")  # the browser's own

    page.get_by_label("How many").fill("4")
    page.get_by_label("For how long").fill("3 hours")
    expect(page.get_by_text("(4 devices)")).to_be_visible()
    page.get_by_role("button", name="Reserve", exact=True).click()

    expect(page.get_by_role("heading", level=1)).to_contain_text("4 × H100 in main")
    made = make.look(Reservation.objects.get())
    expect(page.locator("h1 .chip")).to_have_text("Binding")
    make.report(made, ReportedState.BOUND)
    make.look(made)
    expect(page.locator("h1 .chip")).to_have_text("Active")
    expect(page.get_by_text("--device bcd.dev/gpu=GPU-").first).to_be_visible()
    expect(page.locator(".countdown")).to_contain_text("Ends in")

    page.get_by_role("link", name="Release…").click()
    page.get_by_role("button", name="Release now").click()
    expect(page.locator("h1 .chip")).to_have_text("Released")
    assert Reservation.objects.get().state == "released"
    assert complaints == []


@pytest.mark.rule("U11", "U6", "R36")
def test_an_agent_asks_and_its_person_approves(
    open_page: Open, pool: Pool, complaints: list[str]
) -> None:
    asked = delegates.ask("alice", gpus=4)
    page = open_page("alice", "/pools")
    page.get_by_role("link", name="1 to confirm").click()
    card = page.get_by_role("region", name="Reserve 4 GPUs")
    expect(card).to_contain_text("trainer, for alice")
    expect(card).to_contain_text("Expires in")
    card.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("Approved. trainer can send its request again now.")).to_be_visible()
    expect(page.get_by_text("Nothing awaits your answer")).to_be_visible()
    _wait_for_news(page, lambda: delegates.ask("alice", gpus=2))
    page.goto(f"/reservations/{asked.resource_id}")
    expect(page.locator("h1 .chip")).to_have_text("Awaiting confirmation")
    expect(page.get_by_text("have the agent send the same request again")).to_be_visible()
    assert complaints == []


def _wait_for_news(page: Page, ask: Callable[[], object]) -> None:
    """The list renews itself, but not while something is written in it."""
    asked_for: list[str] = []
    page.on("request", lambda request: asked_for.append(request.url))
    page.clock.install()
    page.reload()
    ask()
    page.clock.fast_forward(16_000)
    questions = page.get_by_role("region", name="Reserve 2 GPUs")
    expect(questions).to_have_count(1)
    expect(page.get_by_role("link", name="1 to confirm")).to_be_visible()
    reason = questions.get_by_label("Why not")
    reason.fill("not today")
    page.locator("h1").click()  # what is written stays, wherever the person looks
    asked_for.clear()
    ask()
    page.clock.fast_forward(60_000)
    expect(reason).to_have_value("not today")
    assert asked_for == []
    reason.clear()
    page.locator("h1").click()
    page.clock.fast_forward(16_000)
    expect(questions).to_have_count(2)
    expect(page.get_by_role("link", name="2 to confirm")).to_be_visible()


@pytest.mark.rule("U11", "U2")
def test_reserve_next_monday_across_a_change_of_clocks(
    open_page: Open, pool: Pool, clock: SimulatedClock
) -> None:
    clock.set(datetime(2026, 3, 27, 9, 0, tzinfo=UTC))  # the Friday before
    page = open_page("alice", "/reserve")
    page.get_by_label("Starting").fill("Mon 09:00")
    page.get_by_label("For how long").fill("8h")
    expect(page.locator("#preview")).to_contain_text("Mon 30 Mar 09:00 – 17:00")
    page.get_by_role("button", name="Reserve", exact=True).click()
    expect(page.locator("h1 .chip")).to_have_text("Placed")
    # Nine o'clock of the new offset: 07:00 UTC, where the Friday's nine was 08:00.
    assert Reservation.objects.get().starts_at == datetime(2026, 3, 30, 7, 0, tzinfo=UTC)


@pytest.mark.rule("U11", "U2")
def test_a_conflict_is_explained_before_and_after_the_click(open_page: Open, pool: Pool) -> None:
    for _ in range(2):
        make.reservation(cast.caller("bob"), pool, gpus=8)
    page = open_page("alice", f"/reserve?pool={pool.pk}")
    expect(page.locator("#preview")).to_contain_text("It does not fit")
    expect(page.locator("#preview")).to_contain_text("Devices are booked in that window")
    page.get_by_role("button", name="Reserve", exact=True).click()
    expect(page.locator("h1 .chip")).to_have_text("Pending")
    expect(page.get_by_text("No devices fit yet")).to_be_visible()


@pytest.mark.rule("U2")
def test_mistakes_are_named_beside_their_fields(open_page: Open, pool: Pool) -> None:
    page = open_page("alice", "/reserve")
    page.get_by_label("How many").fill("0")
    page.get_by_label("For how long").fill("soon")
    page.get_by_role("button", name="Reserve", exact=True).click()
    expect(page.locator("#count-error")).to_have_text("At least 1.")
    expect(page.locator("#duration-error")).to_contain_text("Not a duration we understand.")
    expect(page.get_by_label("How many")).to_have_attribute("aria-describedby", "count-error")
    assert not Reservation.objects.exists()


@pytest.mark.rule("U2", "R8")
def test_a_double_click_books_once(open_page: Open, pool: Pool) -> None:
    page = open_page("alice", "/reserve")
    page.get_by_role("button", name="Reserve", exact=True).dblclick(no_wait_after=True)
    expect(page.locator("h1 .chip")).to_have_text("Placed")
    assert Reservation.objects.count() == 1


@pytest.mark.rule("U2", "R8")
def test_the_same_form_sent_twice_at_once_books_once(open_page: Open, pool: Pool) -> None:
    """What a double click does where the browser lets both requests out."""
    page = open_page("alice", "/reserve")
    addresses = page.evaluate(
        """async () => {
        const body = new URLSearchParams(new FormData(document.querySelector("form.card")));
        const send = () => fetch("/reserve", {method: "POST", body});
        return (await Promise.all([send(), send(), send()])).map(answer => answer.url); }"""
    )
    (made,) = Reservation.objects.all()
    assert [address.endswith(f"/reservations/{made.pk}") for address in addresses] == [True] * 3


def test_filters_narrow_the_list_and_stay_in_the_address(open_page: Open, pool: Pool) -> None:
    make.reservation(cast.caller("alice"), pool, gpus=2)
    make.reservation(cast.caller("bob"), pool, gpus=3)
    page = open_page("alice", "/reservations")
    expect(page.locator("#results tbody tr")).to_have_count(1)
    page.get_by_text("All of Acme").click()
    expect(page.locator("#results tbody tr")).to_have_count(2)
    page.get_by_label("State").select_option("released")
    expect(page.locator("#results")).to_contain_text("Nothing matches these filters")
    assert re.search(r"scope=all.*state=released", page.url)
    page.reload()
    expect(page.get_by_label("State")).to_have_value("released")


def test_the_theme_and_the_copy_button_work_under_the_strict_policy(
    open_page: Open, pool: Pool, complaints: list[str]
) -> None:
    made = make.active(cast.caller("alice"), pool)
    page = open_page(
        "alice", f"/reservations/{made.pk}", permissions=["clipboard-read", "clipboard-write"]
    )
    page.get_by_role("button", name=re.compile("^Copy: On the command line")).click()
    assert page.evaluate("navigator.clipboard.readText()") == f"better-compute get {made.pk}"
    page.get_by_label("Account of alice").click()
    page.get_by_text("Dark", exact=True).click()
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert complaints == []


@pytest.mark.rule("U6")
def test_a_token_is_shown_once_whatever_is_pressed_then(open_page: Open) -> None:
    cast.account("bob")
    page = open_page("bob", "/tokens/new")
    page.get_by_label("Name").fill("nightly")
    # Pressed again while the answer is under way: a double click is one for the browser as well.
    page.locator("main form").evaluate(
        "form => { form.requestSubmit(); setTimeout(() => form.requestSubmit(), 30); }"
    )
    shown = page.get_by_text(re.compile("^bct_"))
    expect(shown).to_be_visible()
    page.get_by_role("link", name="API tokens").first.click()
    page.go_back()
    expect(page.get_by_role("heading", name="nightly")).to_be_visible()
    expect(shown).to_have_count(0)
    page.reload()
    expect(page.get_by_role("heading", name="nightly")).to_be_visible()
    expect(shown).to_have_count(0)
    page.go_back()
    page.go_forward()
    expect(shown).to_have_count(0)
    page.goto("/tokens")
    expect(page.get_by_role("link", name="nightly")).to_have_count(1)
