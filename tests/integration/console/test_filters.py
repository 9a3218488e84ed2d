"""The filters of the console's lists: the menu, the address and the list say the same."""

import re
from collections.abc import Iterator
from html import unescape
from typing import get_args
from urllib.parse import urlencode

import pytest
from django.http import HttpResponse
from django.test import Client

from bettercompute import states
from bettercompute.console import audit
from bettercompute.wire.webhooks import DeliveryState
from outbox import events, filters
from outbox.webhooks import pages
from tests.support import cast

pytestmark = [pytest.mark.django_db, pytest.mark.rule("U4")]

_FORM = re.compile(r'<form[^>]*method="get".*?</form>', re.DOTALL)
_SELECT = re.compile(r'<select[^>]*name="(\w+)".*?</select>', re.DOTALL)
_OPTION = re.compile(r'<option value="([^"]*)"( selected)?>')
_CHOICE = re.compile(r'<input type="(?:radio|checkbox)" name="(\w+)" value="([^"]*)"( checked)?>')

PAGES = ("/reservations", "/series", "/audit", "/tokens", "/usage")


@pytest.fixture
def alice() -> Client:
    return cast.session("alice")


def offered(page: HttpResponse) -> Iterator[tuple[str, str, bool]]:
    """Each value of each filter, and whether it is chosen."""
    assert page.status_code == 200, page.content
    for form in _FORM.findall(page.content.decode()):
        for select in _SELECT.finditer(form):
            for value, chosen in _OPTION.findall(select[0]):
                yield select[1], unescape(value), bool(chosen)
        for name, value, chosen in _CHOICE.findall(form):
            yield name, unescape(value), bool(chosen)


@pytest.mark.parametrize("path", PAGES)
def test_what_the_menus_offer_is_taken_and_shown_as_chosen(alice: Client, path: str) -> None:
    choices = {(name, value) for name, value, _ in offered(alice.get(path))}
    assert len(choices) > 1
    for name, value in choices:
        page = alice.get(f"{path}?{urlencode({name: value})}")
        assert (name, value, True) in set(offered(page)), (name, value)


def test_the_types_of_events_are_taken(alice: Client) -> None:
    values = [value for name, value, _ in offered(alice.get("/events")) if name == "types"]
    assert {"", "reservation.*", "reservation.placed"} <= set(values)
    for value in filter(None, values):
        assert filters.types([value])


def test_the_states_of_deliveries_are_those_of_the_api() -> None:
    assert set(pages.DELIVERIES) == set(get_args(DeliveryState))


@pytest.mark.rule("R9")
def test_no_menu_offers_drafts(alice: Client) -> None:
    values = {value for name, value, _ in offered(alice.get("/reservations")) if name == "state"}
    assert values == {"", "live", "over", *states.VISIBLE}
    assert "draft" not in values


@pytest.mark.parametrize(
    ("address", "name", "value"),
    [
        ("/reservations?pool=pool_of_old", "pool", "pool_of_old"),
        ("/events?types=node.*%2Cpool.created", "types", "node.*,pool.created"),
    ],
)
def test_a_filter_that_no_menu_has_is_shown_where_it_counts(
    alice: Client, address: str, name: str, value: str
) -> None:
    assert (name, value, True) in set(offered(alice.get(address)))


@pytest.mark.django_db(transaction=True)  # what is not committed is behind the horizon
def test_events_are_found_by_the_id_of_what_they_are_about(alice: Client) -> None:
    for name in ("rsv_a", "rsv_b"):
        events.publish(
            "reservation.pending",
            tenant_id=cast.tenant().pk,
            subject=f"reservation/{name}",
            data={"state": "pending", "poolId": "pool_a", "reason": f"reason-{name}"},
        )
    page = alice.get("/events?subject=rsv_b").content.decode()
    assert "reason-rsv_b" in page
    assert "reason-rsv_a" not in page
    assert "/api/v1/events/stream?subject=reservation%2Frsv_b" in page  # as the API wants it


def test_what_no_event_is_about_is_told_what_is(alice: Client) -> None:
    page = alice.get("/events?subject=gpu-07")
    assert page.status_code == 400
    text = page.content.decode()
    assert 'value="gpu-07"' in text
    assert "Is an id (rsv_…" in text
    assert "name of a node or a pool that you may see" in text
    assert "data-stream=" not in text
    assert "No event fits" not in text


@pytest.mark.parametrize("typed", ["tok_a", "token/tok_a", "token tok_a"])
def test_the_audit_knows_an_object_by_its_id_with_its_kind_or_without(typed: str) -> None:
    assert audit.read({"object": typed}).object_id == "tok_a"
    assert audit.read({"object": "device/GPU-1/m0"}).object_id == "GPU-1/m0"
    assert audit.read({"object": "GPU-1/m0"}).object_id == "GPU-1/m0"
