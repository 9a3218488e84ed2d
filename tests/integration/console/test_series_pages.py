"""The console's pages of what repeats: asked for, shown, skipped, cancelled."""

import re

import pytest
from django.http import HttpResponse
from django.test import Client

from bettercompute import clock as clocks
from pools.models import Pool
from reservations.confirming import deciding
from reservations.models import Reservation, Series
from tests.support import cast, delegates, make, repeating

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.case(20)]


@pytest.fixture
def bob() -> Client:
    return cast.session("bob", check_csrf=False)


@pytest.fixture
def pool() -> Pool:
    return make.pool(gpus=1)


def fill(pool: Pool, /, **changes: str) -> dict[str, str]:
    """The form as a person leaves it; the visitor's zone is UTC."""
    return {
        "key": "form-1",
        "pool": pool.pk,
        "count": "1",
        "duration": "1h",
        "start": "2026-03-03 14:00",
        "repeat": "daily 3 times",
        **changes,
    }


def text(response: HttpResponse) -> str:
    return re.sub(r"\s+", " ", response.content.decode())


def test_the_form_reserves_the_first_and_opens_the_series(bob: Client, pool: Pool) -> None:
    response = bob.post("/reserve", fill(pool))
    assert response.status_code == 302
    first, series = Reservation.objects.get(), Series.objects.get()
    assert response["Location"] == f"/reservations/{first.pk}"
    assert (series.rule, series.time_zone) == ("FREQ=DAILY;COUNT=3", "UTC")
    assert f'href="/series/{series.pk}"' in text(bob.get(f"/reservations/{first.pk}"))
    again = bob.post("/reserve", fill(pool))
    assert again["Location"] == response["Location"]
    assert Series.objects.count() == 1


def test_the_preview_says_how_many_times_it_fits_and_which_not(bob: Client, pool: Pool) -> None:
    repeating.blocked(pool, "2026-03-04T15:00")
    shown = text(bob.post("/reserve/preview", fill(pool), HTTP_HX_REQUEST="true"))
    assert "It fits 2 of the next 3 times" in shown
    assert "Left out, and tried again until then" in shown
    assert "14:00 – 15:00" in shown
    shown = text(bob.post("/reserve/preview", fill(pool, start="2026-03-06 14:00")))
    assert "It fits the next 3 times" in shown
    shown = text(bob.post("/reserve/preview", fill(pool, start="2026-03-04 14:00")))
    assert "It does not fit the first time" in shown


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"repeat": "hourly"}, "Not a way to repeat that we understand."),
        ({"repeat": "FREQ=HOURLY"}, "Must be FREQ=DAILY or FREQ=WEEKLY"),
        ({"start": ""}, "Say when the first of them begins"),
        ({"duration": "25h"}, "Must be at most a day"),
    ],
)
def test_what_is_wrong_is_said_beside_its_field(
    bob: Client, pool: Pool, changes: dict[str, str], told: str
) -> None:
    response = bob.post("/reserve", fill(pool, **changes))
    assert response.status_code == 400
    assert told in text(response)
    assert not Series.objects.exists()


def test_a_series_is_listed_and_shown_with_each_occurrence(bob: Client, pool: Pool) -> None:
    repeating.blocked(pool, "2026-03-04T15:00")
    series = repeating.opened(pool, "FREQ=DAILY;COUNT=3")
    listed = text(bob.get("/series"))
    assert "Daily, 3 times" in listed
    assert f'href="/series/{series.pk}"' in listed
    assert "Daily" not in text(cast.session("carol").get("/series"))
    assert "Daily" in text(cast.session("carol").get("/series?scope=all"))
    shown = text(bob.get(f"/series/{series.pk}"))
    assert shown.count("Placed") == 2
    assert "Unbooked" in shown
    assert "Europe/Berlin" in shown
    assert cast.session("mallory").get(f"/series/{series.pk}").status_code == 404


@pytest.mark.rule("R36")
def test_it_says_which_agent_asked_for_it_and_where_its_person_was_asked(pool: Pool) -> None:
    agent, alice = delegates.agent("alice", delegates.CREATE), cast.session("alice")
    wanted = {
        "start": clocks.now_ms() + 86_400_000,
        "recurrence": {"rule": "FREQ=DAILY;COUNT=2", "timeZone": "UTC"},
    }
    asked = delegates.refused(lambda: delegates.create(agent, pool, **wanted))
    deciding.approve(cast.caller("alice"), confirmation_id=asked.pk)
    series = delegates.create(agent, pool, **wanted).series_id
    shown = text(alice.get(f"/series/{series}"))
    assert f'<a href="/confirmations/{asked.pk}">agent trainer, for alice</a>' in shown


def test_times_are_by_the_clock_of_the_series_and_by_the_readers_beside(
    bob: Client, pool: Pool
) -> None:
    series = repeating.opened(pool, "FREQ=DAILY;COUNT=2")  # at 15:00 in Berlin
    here = f"/series/{series.pk}"
    shown = text(bob.get(here))
    assert "by the clock of Europe/Berlin" in shown
    assert re.search(r"Wed 4 Mar 15:00 – 16:00</a><span[^>]*>Wed 4 Mar 14:00 – 15:00 by", shown)
    assert "15:00 Europe/Berlin (tomorrow 14:00 by your clock)" in text(bob.get("/series"))
    bob.cookies["zone"] = "Europe/Berlin"
    shown = text(bob.get(here))
    assert "Wed 4 Mar 15:00 – 16:00" in shown
    assert "by your clock" not in shown


@pytest.mark.rule("U1")
def test_at_home_a_series_is_one_line_with_its_next_occurrence(bob: Client, pool: Pool) -> None:
    once = make.reservation(cast.caller("bob"), pool, start="2026-03-03T09:00:00Z", duration="1h")
    series = repeating.opened(pool, "FREQ=DAILY;COUNT=30")
    assert len(set(repeating.states(series)) & {"placed"}) == 1
    first, second, *_ = repeating.occurrences(series)
    home = text(bob.get("/"))
    assert f'href="/reservations/{once.pk}"' in home
    assert f'href="/reservations/{first.pk}"' in home
    assert f'href="/reservations/{second.pk}"' not in home
    more = len(repeating.occurrences(series)) - 1
    assert f'<a href="/series/{series.pk}">daily, 30 times, {more} more</a>' in home
    bob.post(f"/reservations/{first.pk}/cancel")
    home = text(bob.get("/"))
    assert f'href="/reservations/{second.pk}"' in home
    assert f"daily, 30 times, {more - 1} more" in home


def test_an_occurrence_is_skipped_and_the_rest_cancelled(bob: Client, pool: Pool) -> None:
    series = repeating.opened(pool, "FREQ=DAILY;COUNT=4")
    second = clocks.to_ms(repeating.at("2026-03-04T15:00"))
    response = bob.post(f"/series/{series.pk}/skip", {"occurrence": str(second)})
    assert response.status_code == 302
    assert repeating.states(series) == ["placed", "cancelled", "placed", "placed"]

    third = clocks.to_ms(repeating.at("2026-03-05T15:00"))
    asked = text(bob.get(f"/series/{series.pk}/cancel?from={third}"))
    assert "Given up: 2 occurrences not begun yet." in asked
    for path in (f"/series/{series.pk}/cancel?from=", f"/series/{series.pk}/cancel?from=third"):
        assert bob.get(path).status_code == bob.post(path).status_code == 400
    assert repeating.states(series)[2:] == ["placed", "placed"], "never read as all of it"
    assert bob.post(f"/series/{series.pk}/cancel?from={third}").status_code == 302
    assert repeating.states(series) == ["placed", "cancelled", "cancelled", "cancelled"]
    assert bob.post(f"/series/{series.pk}/cancel").status_code == 302
    assert repeating.states(series)[0] == "cancelled"


def test_what_cannot_be_skipped_or_cancelled_is_said(bob: Client, pool: Pool) -> None:
    series = repeating.opened(pool, "FREQ=DAILY;COUNT=2")
    for wrong in ("", "x", "-1", "9" * 40, "1"):
        response = bob.post(f"/series/{series.pk}/skip", {"occurrence": wrong})
        assert response.status_code == 409
        assert "Nothing was skipped" in text(response)
    carol = cast.session("carol", check_csrf=False)
    response = carol.post(f"/series/{series.pk}/cancel")
    assert response.status_code == 409
    assert repeating.states(series) == ["placed", "placed"]
