"""A real Chromium against a live server; the worker's and the nodes' part is driven by the test."""

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, sync_playwright
from pytest_django.live_server_helper import LiveServer

from tests.support import cast

CHROMIUM = (
    os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
)
FLAGS = [
    "--no-sandbox",  # the tests may run as root
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
]
DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium a module: its event loop would be in the way of everybody else's tests."""
    if CHROMIUM is None:
        pytest.skip(
            "no Chromium: install it (apt-get install chromium) or set CHROMIUM to its path"
        )
    # Playwright's synchronous API runs an event loop in this thread; Django would refuse the ORM.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield launched
        launched.close()
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@pytest.fixture
def complaints() -> list[str]:
    """What the browser's console complained about, CSP violations included."""
    return []


def _complained(said: ConsoleMessage) -> list[str]:
    """What a message complains of, if anything.

    A page that is left while it asks for news of itself gives that up, and htmx says so in two
    messages; the first comes with whatever goes wrong, beside one that says what did.
    """
    given_up = ("htmx:afterRequest", "htmx:sendAbort")
    is_complaint = said.type == "error" and not said.text.startswith(given_up)
    return [said.text] if is_complaint else []


@pytest.fixture
def open_page(
    browser: Browser, live_server: LiveServer, complaints: list[str]
) -> Iterator[Callable[..., Page]]:
    """``open_page("alice", "/pools")``: a page of the console, signed in by session cookie."""
    contexts: list[BrowserContext] = []

    def open_(
        name: str | None, path: str, *, zone: str = "Europe/Berlin", wait: str = "load", **how: Any
    ) -> Page:
        how.setdefault("viewport", DESKTOP)
        context = browser.new_context(base_url=live_server.url, timezone_id=zone, **how)
        contexts.append(context)
        if name is not None:
            session = cast.session(name).cookies["sessionid"].value
            context.add_cookies(
                [
                    {"name": "sessionid", "value": session, "url": live_server.url},
                    {"name": "zone", "value": zone, "url": live_server.url},
                ]
            )
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda said: complaints.extend(_complained(said)))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(path, wait_until=wait)  # type: ignore[arg-type]
        return page

    yield open_
    for context in contexts:
        context.close()
