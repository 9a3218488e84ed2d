"""What every page owes its reader (U7): axe, both themes, a phone's width, weight, no shifting."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.db import connections
from playwright.sync_api import Page, expect

from bettercompute import clock
from bettercompute.iam import cedar, policies, tokens
from bettercompute.iam.callers import Caller
from bettercompute.iam.models import Policy, Tenant
from outbox.models import Event
from outbox.webhooks import endpoints, resending
from outbox.webhooks.endpoints import Draft
from pools.models import Pool
from reservations.confirming import deciding
from reservations.models import Reservation
from tests.browser.conftest import DESKTOP, PHONE
from tests.support import cast, delegates, make

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("U7")]
Open = Callable[..., Page]

FIRST_LOAD_BYTES_MAX = 200_000
WCAG = {
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
}
AXE = Axe()
#: Where a page's arrangement changes, and on both sides of that.
NARROW, WIDE = (320, 720, PHONE["width"]), (768, 1024, DESKTOP["width"])
#: What does not fit: the page its screen, or what a table's cell says the cell.
MISFITS = """() => {
  const cells = [...document.querySelectorAll(".rows tbody :is(td, th)")]
    .filter(e => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1)
    .map(e => `${e.textContent.trim()} runs over its ${e.clientWidth} pixels`);
  const { scrollWidth: wide, clientWidth: screen } = document.documentElement;
  return wide > screen ? [`the page is ${wide} pixels wide`, ...cells] : cells;
}"""


@pytest.fixture
def paths(transactional_db: None) -> dict[str, str]:
    """Every kind of page of a console in use, by name."""
    alice, bob = cast.caller("alice"), cast.caller("bob")
    Tenant.objects.update(name="Acme Research and Development")  # stands on several pages
    pool: Pool = make.pool(nodes=3, name="main")
    big = make.pool(nodes=9, name="big")
    active = make.active(alice, pool, gpus=4, duration="20h")
    ahead = make.reservation(alice, pool, gpus=2, start="2026-03-03T09:00:00Z", duration="1d")
    make.reservation(bob, pool, gpus=8, duration="12h")
    make.reservation(bob, big, gpus=6, duration="12h")
    series = make.series(bob, big)
    given_up, waiting = (make.reservation(alice, pool, gpus=8, duration="2h") for _ in range(2))
    webhook, _ = endpoints.create(
        alice, Draft("http://127.0.0.1:1025/hook", "builds", ["reservation.*", "node.cordoned"])
    )
    cast.session("alice", check_csrf=False).post(f"/reservations/{given_up.pk}/cancel")  # audited
    tried = _tried(alice, webhook.pk)
    token, _ = tokens.create(alice, name="nightly", expires_at=clock.now() + timedelta(days=90))
    policy = _policy(alice)
    event = Event.objects.filter(tenant_id=alice.tenant_id).values_list("id", flat=True)[0]
    return {
        "home": "/",
        "pools": "/pools",
        "pool": f"/pools/{pool.pk}",
        "large-pool": f"/pools/{big.pk}?range=7d",
        "reserve": f"/reserve?pool={pool.pk}&count=2&start=tomorrow+08:00&duration=8h",
        "reserve-no": f"/reserve?pool={pool.pk}&count=9&vcpu=2",
        "reservations": "/reservations?scope=all",
        "nothing-found": "/reservations?state=failed",
        "active": f"/reservations/{active.pk}",
        "placed": f"/reservations/{ahead.pk}",
        "pending": f"/reservations/{waiting.pk}",
        "extend": f"/reservations/{active.pk}/extend",
        "share": f"/reservations/{active.pk}/users",
        "release": f"/reservations/{active.pk}/release",
        **_of_agents(alice, active),
        "events": "/events",
        "events-mistaken": "/events?subject=gpu-01",
        "event": f"/events/{event}",
        "event-types": "/events/catalog",
        "webhooks": "/webhooks",
        "webhook": f"/webhooks/{webhook.pk}",
        "webhook-edit": f"/webhooks/{webhook.pk}/edit",
        "webhook-new": "/webhooks/new",
        "tokens": "/tokens",
        "token-new": "/tokens/new",
        "token": f"/tokens/{token.pk}",
        "token-revoke": f"/tokens/{token.pk}/revoke",
        "policies": "/policies",
        "policy-new": "/policies/new?from=students",
        "policy": f"/policies/{policy.pk}",
        "policies-shipped": "/policies/shipped",
        "audit": "/audit",
        "usage": "/usage",
        "series": "/series",
        "one-series": f"/series/{series}",
        "calendar-feeds": "/calendar-feeds",
        "webhook-delivery": f"/webhooks/{webhook.pk}/deliveries/{tried}",
        "missing": "/reservations/rsv_nothing",
    }


#: Which pages axe looks at: it takes most of the time. Colours do not know the width, nor widths
#: the colour, so each page is looked at in one of the two that are always run.
ALL, EVEN, ODD = slice(None), slice(0, None, 2), slice(1, None, 2)


@pytest.mark.parametrize(
    ("viewport", "theme", "examined"),
    [
        pytest.param(DESKTOP, "light", EVEN, id="desktop-light"),
        pytest.param(PHONE, "dark", ODD, id="phone-dark"),
        pytest.param(DESKTOP, "light", ALL, id="all-desktop-light", marks=pytest.mark.long),
        pytest.param(PHONE, "dark", ALL, id="all-phone-dark", marks=pytest.mark.long),
        pytest.param(DESKTOP, "dark", ALL, id="all-desktop-dark", marks=pytest.mark.long),
        pytest.param(PHONE, "light", ALL, id="all-phone-light", marks=pytest.mark.long),
    ],
)
def test_every_page_passes_axe_and_fits_its_screen(
    open_page: Open,
    paths: dict[str, str],
    viewport: dict[str, int],
    theme: str,
    examined: slice,
) -> None:
    page = open_page("alice", "/", color_scheme=theme, viewport=viewport)
    problems = []
    names = list(paths)[examined]
    resized = page.context.new_cdp_session(page).send  # half the time of set_viewport_size
    screen = {**viewport, "deviceScaleFactor": 1, "mobile": False}
    widths = NARROW if viewport == PHONE else WIDE
    for name, path in paths.items():
        page.goto(path)
        _keep(page, f"{name}-{viewport['width']}-{theme}")
        page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
        if name in names and (found := AXE.run(page, options=WCAG)).violations_count:
            problems.append(f"{name}: {found.generate_report()}")
        for width in widths:
            resized("Emulation.setDeviceMetricsOverride", {**screen, "width": width})
            problems += [f"{name} at {width}: {misfit}" for misfit in page.evaluate(MISFITS)]
    assert problems == [], "\n".join(problems)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_sign_in_page_passes_axe(open_page: Open, theme: str) -> None:
    page = open_page(None, "/login", color_scheme=theme)
    page.get_by_label("Username").fill("nobody")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    found = AXE.run(page, options=WCAG)
    assert found.violations_count == 0, found.generate_report()


def test_the_heaviest_page_is_light(open_page: Open, paths: dict[str, str]) -> None:
    page = open_page("alice", "/login")
    sizes: list[int] = []
    page.on("response", lambda response: sizes.append(len(response.body())))
    page.goto(paths["reserve"], wait_until="networkidle")
    assert sum(sizes) <= FIRST_LOAD_BYTES_MAX, sizes


def test_nothing_moves_while_the_preview_updates(open_page: Open, paths: dict[str, str]) -> None:
    page = open_page("alice", paths["reserve"], wait="networkidle")
    page.evaluate(
        """() => { window.shifted = 0;
        new PerformanceObserver(list => {
          for (const entry of list.getEntries()) window.shifted += entry.value;
        }).observe({type: "layout-shift"}); }"""
    )
    page.get_by_label("How many").fill("3")
    expect(page.locator("#preview")).to_contain_text("(3 devices)")
    page.get_by_label("For how long").fill("2 days")
    expect(page.locator("#preview")).to_contain_text("2 d")
    assert page.evaluate("window.shifted") < 0.02


def test_the_keyboard_reaches_everything_and_shows_where_it_is(
    open_page: Open, paths: dict[str, str]
) -> None:
    page = open_page("alice", paths["reserve"])
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        name, outline = page.evaluate(
            """() => { const e = document.activeElement;
            const shown = e.closest(".segments label") ?? e;
            return [e.name || e.textContent.trim(), getComputedStyle(shown).outlineStyle]; }"""
        )
        reached.add(name)
        assert outline != "none", f"no visible focus on {name!r}"
        if name == "Reserve":
            break
    # Of whole GPUs alone, nobody is asked for a class or a profile.
    assert not reached & {"device_class", "profile"}
    assert {"pool", "count", "topology", "duration", "start", "Reserve"} <= reached


def test_from_every_place_the_keyboard_goes_on_to_another_and_escape_comes_back(
    open_page: Open, paths: dict[str, str]
) -> None:
    page = open_page("alice", "/")
    more = page.locator(".more-places > summary")
    for name in ("Audit", "Events", "Webhooks", "API tokens", "Policies"):
        more.focus()
        page.keyboard.press("Enter")
        place = page.locator(".places").get_by_role("link", name=name, exact=True)
        expect(place).to_be_visible()
        page.keyboard.press("Escape")
        expect(place).to_be_hidden()
        expect(more).to_be_focused()
        page.keyboard.press("Enter")
        _tab_to(page, name)
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1, name=name)).to_be_visible()
        assert page.locator(".more-places [aria-current='page']").text_content() == name
        _reach_all(page)


def _tab_to(page: Page, name: str) -> None:
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("() => document.activeElement.textContent.trim()") == name:
            return
    raise AssertionError(f"{name!r} is not reached")


#: What a keyboard must reach: all that can be used and is shown, by the order of the document.
USABLE = """() => [...document.querySelectorAll(
  "main :is(a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0'])")]
  .filter(e => e.checkVisibility() && !e.disabled).length"""


def _reach_all(page: Page) -> None:
    """Tab over what the page has: each is reached once, with a visible focus."""
    page.locator("#main").focus()
    for number in range(page.evaluate(USABLE)):
        page.keyboard.press("Tab")
        is_inside, outline = page.evaluate(
            """() => { const e = document.activeElement;
            const shown = e.closest(".segments label") ?? e;
            return [!!e.closest("main"), getComputedStyle(shown).outlineStyle]; }"""
        )
        assert is_inside, f"only {number} are reached on {page.url}"
        assert outline != "none", f"no visible focus at {number} on {page.url}"


def _tried(caller: Caller, webhook_id: str) -> str:
    """The id of a delivery that nobody took; in a thread, since the browser's loop runs in ours."""

    def send() -> str:
        try:
            return resending.test(caller, webhook_id).id
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(send).result()


def _policy(caller: Caller) -> Policy:
    """One that is off, so that nothing else notices."""
    draft = policies.Draft("freeze", cedar.examples()[0].text, enabled=False)
    return policies.create(caller, draft=draft)


def _of_agents(alice: Caller, active: Reservation) -> dict[str, str]:
    """What an agent asks, was let and was denied, and a reservation that waits for the answer."""
    asked, let = (delegates.ask("alice", gpus=gpus) for gpus in (4, 2))
    deciding.approve(alice, confirmation_id=let.pk)
    deciding.deny(alice, confirmation_id=delegates.question("alice", active).pk, reason="not yet")
    # Over the API, so that the refusal is in the audit with what was asked for, and why not.
    delegates.agent("alice", delegates.RELEASE, name="night-trainer").api.post(
        f"/reservations/{active.pk}/release", {"tenantId": alice.tenant_id}
    )
    return {
        "confirmations": "/confirmations",
        "confirmation": f"/confirmations/{asked.pk}",
        "awaiting": f"/reservations/{asked.resource_id}",
    }


def _keep(page: Page, name: str) -> None:
    """A picture for whoever reviews the change, where one was asked for."""
    if folder := os.environ.get("SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)
