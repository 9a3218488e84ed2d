"""Extending and renewing in the browser, and the button for the earliest start (U2, U3)."""

import re

import pytest
from django.http import HttpResponse
from django.test import Client

from bettercompute import clock as clocks
from pools.models import Pool
from reservations.models import Reservation
from tests.conftest import SimulatedClock
from tests.integration.console.test_pages import fill
from tests.support import cast, make

pytestmark = pytest.mark.django_db(transaction=True)

HOUR_MS = 3_600_000


@pytest.fixture
def alice() -> Client:
    return cast.session("alice", check_csrf=False)


@pytest.fixture
def pool() -> Pool:
    return make.pool(nodes=1, gpus=2)


def text(response: HttpResponse) -> str:
    return re.sub(r"\s+", " ", response.content.decode())


def key_in(page: str) -> str:
    found = re.search(r'name="key" value="([^"]+)"', page)
    assert found is not None
    return found[1]


def end_of(reservation: Reservation) -> int:
    row = Reservation.objects.get(pk=reservation.pk)
    assert row.ends_at is not None
    return clocks.to_ms(row.ends_at)


@pytest.mark.rule("U3", "R33")
@pytest.mark.parametrize("more", ["1h", "60 minutes", "+2h", "11:00"])
def test_a_length_or_a_moment_extends_it_once_a_form(
    alice: Client, pool: Pool, clock: SimulatedClock, more: str
) -> None:
    made = make.active(cast.caller("alice"), pool, duration="1h")
    path = f"/reservations/{made.pk}"
    assert f'href="{path}/extend"' in text(alice.get(path))
    page = text(alice.get(f"{path}/extend"))
    assert "Nothing that is booked on its devices comes after it." in page
    form = {"key": key_in(page), "more": more}
    for _ in range(2):  # a double click
        assert alice.post(f"{path}/extend", form)["Location"] == path
    assert end_of(made) == clock.now_ms() + 2 * HOUR_MS


@pytest.mark.rule("U3", "R22", "R33")
def test_where_others_come_next_it_says_how_far_and_a_button_goes_there(
    alice: Client, pool: Pool, clock: SimulatedClock
) -> None:
    mine = make.active(cast.caller("alice"), pool, gpus=2, duration="1h")
    make.reservation(cast.caller("alice"), pool, start=clock.now_ms() + 2 * HOUR_MS)
    path = f"/reservations/{mine.pk}/extend"
    refused = alice.post(path, {"key": "form-1", "more": "1 day"})
    assert refused.status_code == 409
    page = text(refused)
    assert "Others come before that." in page
    assert "It can go until today 11:00 (1" in page
    assert 'value="1h"' in page
    assert 'value="4h"' not in page
    as_long = re.search(r'name="more" value="(\d{13})"', page)
    assert as_long is not None
    assert alice.post(path, {"key": key_in(page), "more": as_long[1]}).status_code == 302
    assert end_of(mine) == clock.now_ms() + 2 * HOUR_MS
    assert "it cannot be extended now" in text(alice.get(path))


@pytest.mark.rule("U3")
@pytest.mark.parametrize("more", ["", "soon", "now", "-1h", "30 Feb 09:00"])
def test_what_is_neither_is_said_at_the_field(alice: Client, pool: Pool, more: str) -> None:
    made = make.reservation(cast.caller("alice"), pool)
    response = alice.post(f"/reservations/{made.pk}/extend", {"key": "form-1", "more": more})
    assert response.status_code == 400
    assert "Say how much longer" in text(response)
    assert 'aria-invalid="true"' in text(response)


@pytest.mark.rule("U3")
def test_what_is_over_has_no_such_page(alice: Client, pool: Pool, clock: SimulatedClock) -> None:
    made = make.active(cast.caller("alice"), pool, duration="1h")
    clock.advance("2h")
    make.look(made)
    path = f"/reservations/{made.pk}"
    assert alice.get(f"{path}/extend")["Location"] == path
    assert f"{path}/extend" not in text(alice.get(path))


@pytest.mark.rule("U3", "R32")
def test_a_lease_is_shown_and_renewed(alice: Client, pool: Pool, clock: SimulatedClock) -> None:
    made = make.active(cast.caller("alice"), pool, duration="8h", leaseSeconds=3_600)
    clock.advance("30m")
    path = f"/reservations/{made.pk}"
    page = text(alice.get(path))
    assert "lapses today 10:00 unless renewed" in page
    assert f'action="{path}/renew"' in page
    assert alice.post(f"{path}/renew")["Location"] == path
    assert "lapses today 10:30 unless renewed" in text(alice.get(path))


@pytest.mark.rule("R38")
def test_another_tenants_reservation_is_not_there(pool: Pool) -> None:
    made = make.reservation(cast.caller("alice"), pool, leaseSeconds=60)
    mallory = cast.session("mallory", check_csrf=False)
    assert mallory.get(f"/reservations/{made.pk}/extend").status_code == 404
    assert mallory.post(f"/reservations/{made.pk}/extend", {"more": "1h"}).status_code == 404
    assert mallory.post(f"/reservations/{made.pk}/renew").status_code == 404


@pytest.mark.rule("U2", "R20")
def test_what_does_not_fit_now_has_a_button_for_when_it_would(
    alice: Client, pool: Pool, clock: SimulatedClock
) -> None:
    clock.advance("30s")
    make.reservation(cast.caller("alice"), pool, gpus=2, duration="3h")
    preview = text(alice.post("/reserve/preview", fill(pool, duration="1h")))
    assert "It would fit from <b>today 12:01</b> on." in preview
    button = re.search(r'name="start" value="([^"]+)"[^>]*data-fill="start"', preview)
    assert button is not None
    then = text(alice.post("/reserve/preview", fill(pool, duration="1h", start=button[1])))
    assert "It fits" in then
