"""The page of events in a real browser, on the real server: it keeps itself up to date (A7)."""

import time
from collections.abc import Callable

import pytest
from django.db import connections
from playwright.sync_api import Browser, Page, expect

from outbox import events
from tests.support import cast, web_server

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("A7")]
PATIENCE_MS = 60_000


def publish(*names: str, slug: str = "acme") -> None:
    """An event about each."""
    for name in names:
        events.publish(
            "reservation.pending",
            tenant_id=cast.tenant(slug).pk,
            subject=f"reservation/{name}",
            data={"state": "pending", "poolId": "pool_a", "reason": f"reason-{name}"},
        )
    connections.close_all()


def signed_in(browser: Browser, url: str) -> Page:
    """Alice in the console of this server."""
    context = browser.new_context(base_url=url)
    session = cast.session("alice").cookies["sessionid"].value
    context.add_cookies([{"name": "sessionid", "value": session, "url": url}])
    return context.new_page()


@pytest.mark.long
def test_what_happens_appears_by_itself_also_after_the_server_restarted(browser: Browser) -> None:
    publish("first")
    with web_server.running(workers=1) as server:
        page = signed_in(browser, server.url)
        page.set_default_timeout(PATIENCE_MS)
        page.goto("/events")
        expect(page.get_by_text("Live:")).to_be_visible(timeout=PATIENCE_MS)
        publish("second")
        publish("foreign", slug="globex")
        expect(page.get_by_text("reason-second")).to_be_visible(timeout=PATIENCE_MS)
        server.terminate()
        publish("third")
        server.start()
        expect(page.get_by_text("reason-third")).to_be_visible(timeout=PATIENCE_MS)
        assert page.get_by_text("reservation/foreign").count() == 0
        rows = page.locator("tbody tr").all_inner_texts()
        assert len(rows) == 3
        page.context.close()


#: Reads a stream as any page may, counting what comes twice; goes on by what the browser keeps.
READ = """
async (count) => await new Promise((done) => {
  const seen = [];
  const source = new EventSource("/api/v1/events/stream?after=0-0");
  source.addEventListener("reservation.pending", (event) => {
    seen.push([event.lastEventId, JSON.parse(event.data).subject]);
    if (seen.length === count) { source.close(); done(seen); }
  });
  window.seen = seen;
})
"""


def seen_by(page: Page, count: int) -> None:
    """Wait until the page has seen so many; what it evaluates must be no text, by the CSP."""
    until = time.monotonic() + PATIENCE_MS / 1_000
    while page.evaluate("() => window.seen.length") < count:
        assert time.monotonic() < until, "it did not come"
        page.wait_for_timeout(100)


@pytest.mark.long
def test_a_browsers_own_event_source_goes_on_behind_what_it_has(browser: Browser) -> None:
    publish("a", "b")
    with web_server.running(workers=1) as server:
        page = signed_in(browser, server.url)
        page.set_default_timeout(PATIENCE_MS)
        page.goto("/events/catalog")
        page.evaluate(f"() => {{ window.reading = ({READ})(5); }}")
        seen_by(page, 2)
        server.kill()
        publish("c")
        server.start()
        seen_by(page, 3)
        server.terminate()
        publish("d", "e")
        server.start()
        seen_by(page, 5)
        seen = page.evaluate("() => window.reading")
        assert [subject for _, subject in seen] == [f"reservation/{name}" for name in "abcde"]
        assert len({identifier for identifier, _ in seen}) == 5
        page.context.close()


def test_without_javascript_the_list_has_filters_and_pages(open_page: Callable[..., Page]) -> None:
    publish(*(f"n{number}" for number in range(60)))
    page = open_page("alice", "/events", java_script_enabled=False)
    page.get_by_label("About").fill("reservation/n7")
    page.get_by_role("button", name="Filter").click()
    assert page.locator("tbody tr").count() == 1
    page.goto("/events?types=reservation.*")
    assert page.locator("tbody tr").count() == 50
    page.get_by_role("link", name="Older").click()
    assert page.locator("tbody tr").count() == 10
    page.get_by_role("link", name="reservation.pending").first.click()
    expect(page.get_by_role("heading", name="As it is sent")).to_be_visible()
    expect(page.locator("pre")).to_contain_text('"subject": "reservation/n')
    page.get_by_role("link", name="This type").click()
    expect(page.locator("[id='reservation.pending']")).to_be_visible()
