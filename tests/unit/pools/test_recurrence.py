"""Recurrences: which rules are taken, and which instants they mean."""

import itertools
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bettercompute import errors
from bettercompute.wire.reservations import ReservationRequest
from pools import recurrence, requests
from pools.recurrence import Recurrence
from pools.requests import NormalisedRequest

BERLIN = ZoneInfo("Europe/Berlin")
NOW_MS = 1_772_442_000_000  # 2026-03-02T09:00:00Z, a Monday
HOUR_MS = 3_600_000


def repeating(rule: str, first: str, zone: str = "Europe/Berlin") -> Recurrence:
    local = datetime.fromisoformat(first)
    return Recurrence(recurrence.parse(rule, weekday=local.weekday()), ZoneInfo(zone), local)


def starts(rule: str, first: str, zone: str = "Europe/Berlin", *, most: int = 10) -> list[str]:
    """In UTC, as far as the minute."""
    found = itertools.islice(repeating(rule, first, zone).starts(), most)
    return [f"{start.astimezone(UTC):%Y-%m-%d %H:%M}" for start in found]


def normalise(**changes: Any) -> NormalisedRequest:
    body = {
        "tenantId": "ten_acme",
        "poolId": "pool_main",
        "devices": [{"class": "gpu", "count": 4}],
        "duration": "8h",
        "start": NOW_MS + HOUR_MS,
        "recurrence": {"rule": "FREQ=DAILY", "timeZone": "Europe/Berlin"},
        **changes,
    }
    wanted = ReservationRequest.model_validate_json(json.dumps(body))
    return requests.normalise(wanted, now_ms=NOW_MS)


def refused(**changes: Any) -> dict[str, str]:
    with pytest.raises(errors.InvalidInput) as error:
        normalise(**changes)
    return {each["path"]: each["message"] for each in error.value.details["errors"]}


def refused_rule(rule: str) -> str:
    found = refused(recurrence={"rule": rule, "timeZone": "Europe/Berlin"})
    assert list(found) == ["recurrence.rule"]
    return found["recurrence.rule"]


@pytest.mark.case(20)
@pytest.mark.parametrize(
    ("zone", "first", "before", "after"),
    [
        ("Europe/Berlin", "2026-10-24T15:00", "2026-10-24 13:00", "2026-10-25 14:00"),
        ("Europe/Berlin", "2026-03-28T15:00", "2026-03-28 14:00", "2026-03-29 13:00"),
        ("America/New_York", "2026-10-31T15:00", "2026-10-31 19:00", "2026-11-01 20:00"),
        ("Australia/Lord_Howe", "2026-04-04T15:00", "2026-04-04 04:00", "2026-04-05 04:30"),
        ("Asia/Kolkata", "2026-10-24T15:00", "2026-10-24 09:30", "2026-10-25 09:30"),
        ("UTC", "2026-10-24T15:00", "2026-10-24 15:00", "2026-10-25 15:00"),
    ],
)
def test_the_local_time_stays_when_clocks_change(zone, first, before, after):
    assert starts("FREQ=DAILY", first, zone, most=2) == [before, after]


@pytest.mark.case(20)
def test_daily_since_april_is_at_the_same_local_time_in_november():
    since_april = repeating("FREQ=DAILY", "2026-04-01T15:00").starts()
    one_off = datetime.fromisoformat("2026-11-02T15:00").replace(tzinfo=BERLIN)
    assert next(start for start in since_april if start >= one_off) == one_off


def test_a_time_that_clocks_skip_is_read_with_the_offset_before():
    """02:30 does not exist on 29 March 2026 in Berlin: it begins at 03:30, and once."""
    assert starts("FREQ=DAILY", "2026-03-28T02:30", most=3) == [
        "2026-03-28 01:30",
        "2026-03-29 01:30",
        "2026-03-30 00:30",
    ]


def test_a_time_that_comes_twice_is_its_first():
    assert starts("FREQ=DAILY", "2026-10-24T02:30", most=3) == [
        "2026-10-24 00:30",
        "2026-10-25 00:30",
        "2026-10-26 01:30",
    ]


def test_a_midnight_that_clocks_skip_counts_to_its_day():
    """In Beirut clocks go forward at midnight."""
    found = repeating("FREQ=DAILY;COUNT=2", "2026-03-28T00:00", "Asia/Beirut").starts()
    assert [f"{start.astimezone(ZoneInfo('Asia/Beirut')):%d %H:%M}" for start in found] == [
        "28 00:00",
        "29 01:00",
    ]


def test_seconds_and_less_of_the_start_are_kept():
    (start,) = repeating("FREQ=DAILY;COUNT=1", "2026-03-02T10:00:00.250000").starts()
    assert start == datetime(2026, 3, 2, 9, 0, 0, 250_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("rule", "days"),
    [
        ("FREQ=DAILY;COUNT=3", ["02", "03", "04"]),
        ("FREQ=DAILY;INTERVAL=2;COUNT=3", ["02", "04", "06"]),
        ("FREQ=DAILY;UNTIL=20260304", ["02", "03", "04"]),
        ("FREQ=WEEKLY;COUNT=3", ["02", "09", "16"]),
        ("FREQ=WEEKLY;BYDAY=MO,WE;COUNT=4", ["02", "04", "09", "11"]),
        ("FREQ=WEEKLY;BYDAY=TU;COUNT=2", ["03", "10"]),
        ("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,FR;COUNT=4", ["02", "06", "16", "20"]),
        ("FREQ=WEEKLY;BYDAY=SU;UNTIL=20260315", ["08", "15"]),
    ],
)
def test_a_rule_names_its_days(rule, days):
    """From Monday, 2 March 2026."""
    assert [start[8:10] for start in starts(rule, "2026-03-02T09:00")] == days


def test_until_as_an_instant_includes_what_begins_at_it():
    assert len(starts("FREQ=DAILY;UNTIL=20260304T080000Z", "2026-03-02T09:00")) == 3
    assert len(starts("FREQ=DAILY;UNTIL=20260304T075959Z", "2026-03-02T09:00")) == 2


def test_until_as_a_day_is_a_day_of_the_zone():
    assert len(starts("FREQ=DAILY;UNTIL=20260303", "2026-03-02T23:30", "Pacific/Auckland")) == 2


@given(
    days=st.sets(st.sampled_from(recurrence.DAYS), min_size=1),
    interval=st.integers(1, 6),
    first=st.datetimes(datetime.fromisoformat("2026-01-01"), datetime.fromisoformat("2028-01-01")),
    zone=st.sampled_from(["Europe/Berlin", "America/St_Johns", "Pacific/Apia", "Africa/Cairo"]),
)
def test_a_weekly_rule_agrees_with_counting_days(days, interval, first, zone):
    """A count of its own: each day of the calendar, by hand."""
    rule = f"FREQ=WEEKLY;INTERVAL={interval};BYDAY={','.join(sorted(days))};COUNT=8"
    monday = first.date() - timedelta(days=first.weekday())
    wanted = []
    for offset in itertools.count():
        day = monday + timedelta(days=offset)
        chosen = recurrence.DAYS[day.weekday()] in days and offset // 7 % interval == 0
        if chosen and day >= first.date():
            wanted.append(day)
        if len(wanted) == 8:
            break
    found = list(repeating(rule, first.isoformat(), zone).starts())
    local = [start.astimezone(ZoneInfo(zone)) for start in found]
    assert [each.date() for each in local] == wanted
    assert found == sorted(set(found))
    usual = [each for each in local if each.time() == first.time()]
    assert len(usual) >= len(local) - 1, "only a night of clocks going forward moves one"


@given(
    interval=st.integers(1, 5),
    days=st.sets(st.integers(0, 6), min_size=1).map(lambda found: tuple(sorted(found))),
    weekly=st.booleans(),
)
def test_occurrences_are_as_far_apart_as_the_gap_says(interval, days, weekly):
    rule = recurrence.Rule("WEEKLY" if weekly else "DAILY", interval, days if weekly else ())
    found = Recurrence(rule, ZoneInfo("UTC"), datetime.fromisoformat("2026-03-02T09:00"))
    some = list(itertools.islice(found.starts(), 3 * len(days) + 3))
    assert min(b - a for a, b in itertools.pairwise(some)) == timedelta(days=rule.gap_days)


@pytest.mark.rule("R2")
@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=HOURLY",
        "FREQ=MONTHLY;BYMONTHDAY=1",
        "FREQ=WEEKLY;BYDAY=1MO",
        "FREQ=WEEKLY;BYDAY=",
        "FREQ=WEEKLY;BYDAY=MO,MO",
        "FREQ=WEEKLY;BYDAY=MO;WKST=SU",
        "FREQ=DAILY;BYDAY=MO",
        "FREQ=DAILY;BYHOUR=9",
        "FREQ=DAILY;INTERVAL=0",
        "FREQ=DAILY;INTERVAL=+1",
        "FREQ=DAILY;INTERVAL=367",
        "FREQ=DAILY;COUNT=0",
        "FREQ=DAILY;COUNT=2001",
        "FREQ=DAILY;COUNT=٣",
        "FREQ=DAILY;UNTIL=20260230",
        "FREQ=DAILY;UNTIL=20260304T080000",
        "FREQ=DAILY;UNTIL=tomorrow",
        "FREQ=DAILY;UNTIL=20260304;COUNT=3",
        "FREQ=DAILY;FREQ=DAILY",
        "FREQ=DAILY;",
        "RRULE:FREQ=DAILY",
        "INTERVAL=2",
        "every day",
    ],
)
def test_any_other_rule_is_invalid_and_told_apart(rule):
    assert refused_rule(rule)


def test_what_is_allowed_is_said():
    assert "FREQ=DAILY or FREQ=WEEKLY" in refused_rule("FREQ=YEARLY")
    assert "BYDAY must be some of MO,TU,WE,TH,FR,SA,SU" in refused_rule("FREQ=WEEKLY;BYDAY=MON")
    assert "BYDAY=MO,TU,WE,TH,FR" in refused_rule("FREQ=DAILY;BYDAY=MO")


@pytest.mark.parametrize("zone", ["Mars/Olympus", "CEST", "../etc/passwd", "+01:00", "Europe"])
def test_a_zone_that_is_none_is_named(zone):
    found = refused(recurrence={"rule": "FREQ=DAILY", "timeZone": zone})
    assert list(found) == ["recurrence.timeZone"]


@pytest.mark.rule("R2")
@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"start": None}, "start"),
        ({"leaseSeconds": 600}, "leaseSeconds"),
        ({"offerId": "off_1"}, "offerId"),
        ({"duration": "25h"}, "duration"),
        (
            {"recurrence": {"rule": "FREQ=DAILY;UNTIL=20260301", "timeZone": "UTC"}},
            "recurrence.rule",
        ),
        (
            {"recurrence": {"rule": "FREQ=DAILY;UNTIL=20320301", "timeZone": "UTC"}},
            "recurrence.rule",
        ),
        (
            {"recurrence": {"rule": "FREQ=WEEKLY;COUNT=300", "timeZone": "UTC"}},
            "recurrence.rule",
        ),
        (
            {
                "start": "2026-10-25T02:30:00+01:00",  # the second of that night
                "recurrence": {"rule": "FREQ=DAILY", "timeZone": "Europe/Berlin"},
            },
            "start",
        ),
    ],
)
def test_what_contradicts_a_recurrence_is_invalid_and_named(changes, path):
    assert list(refused(**changes)) == [path]


@pytest.mark.rule("R7")
def test_the_same_rule_in_other_words_is_the_same_request():
    def asked(rule: str, zone: str = "Europe/Berlin") -> NormalisedRequest:
        return normalise(recurrence={"rule": rule, "timeZone": zone})

    one = asked("FREQ=WEEKLY;BYDAY=MO,WE;INTERVAL=1")
    assert one.hash == asked("byday=we,mo;freq=weekly").hash
    assert one.hash != asked("FREQ=WEEKLY;BYDAY=MO,TH").hash
    assert asked("FREQ=WEEKLY").hash == asked("FREQ=WEEKLY;BYDAY=MO").hash
    assert one.document["recurrence"] == {
        "rule": "FREQ=WEEKLY;BYDAY=MO,WE",
        "timeZone": "Europe/Berlin",
    }


def test_the_start_becomes_that_of_the_first_occurrence():
    asked = normalise(recurrence={"rule": "FREQ=WEEKLY;BYDAY=TH", "timeZone": "UTC"})
    assert asked.start_ms == NOW_MS + HOUR_MS + 3 * 24 * HOUR_MS


def test_a_stored_request_reads_back_as_it_was():
    asked = normalise(
        recurrence={"rule": "FREQ=WEEKLY;BYDAY=TH;UNTIL=20270301T150000Z", "timeZone": "UTC"}
    )
    assert requests.restore(asked.document, tenant_id="ten_acme") == asked
