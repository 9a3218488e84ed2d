"""What a preview says of each occurrence, and that this is what is booked (case 20)."""

from typing import Any

import pytest

from bettercompute import clock as clocks
from bettercompute.iam import policies
from bettercompute.iam.policies import Draft
from bettercompute.wire.capacity import Filter, Preview
from pools import occurrences
from pools.models import Pool
from reservations import previews
from reservations.models import Series
from tests.support import cast, invariants, make, repeating

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.case(20)]

TWO_DAYS = (
    'forbid(principal, action == Action::"compute:reservations:create", resource)'
    " when { context.leadMinutes > 3300 };"
)


def previewed(
    pool: Pool, rule: str = "FREQ=DAILY;COUNT=5", first: str = "2026-03-03T15:00", **changes: Any
) -> Preview:
    recurrence = {"rule": rule, "timeZone": "Europe/Berlin"}
    start = clocks.to_ms(repeating.at(first))
    bob = cast.caller("bob")
    request = make.request(bob, pool, start=start, recurrence=recurrence, **changes)
    return previews.preview(bob, request)


def why(found: Preview) -> list[list[Filter]]:
    assert found.occurrences is not None
    return [[reason.filter for reason in each.reasons] for each in found.occurrences]


def test_without_a_recurrence_nothing_is_said_of_occurrences(clock):
    bob = cast.caller("bob")
    assert previews.preview(bob, make.request(bob, make.pool())).occurrences is None


def test_each_occurrence_that_conflicts_says_so_up_front(clock):
    pool = make.pool(gpus=1)
    other = repeating.blocked(pool, "2026-03-05T15:00")
    found = previewed(pool)
    assert why(found) == [[], [], ["busy"], [], []]
    assert found.occurrences is not None
    third = found.occurrences[2]
    assert third.start == clocks.to_ms(repeating.at("2026-03-05T15:00"))
    assert third.end == third.start + 3_600_000
    assert other.ends_at is not None
    assert third.reasons[0].until == clocks.to_ms(other.ends_at)
    assert not found.fits
    assert found.reasons == third.reasons
    assert found.nodes, "the first is placed"


def test_the_local_time_decides_on_both_sides_of_a_change_of_clocks(clock):
    pool = make.pool(gpus=1)
    repeating.blocked(pool, "2026-03-28T16:00")  # an hour behind, in winter
    repeating.blocked(pool, "2026-03-29T15:00")  # the same hour, in summer
    assert why(previewed(pool, "FREQ=DAILY;COUNT=3", "2026-03-28T15:00")) == [[], ["busy"], []]


@pytest.mark.parametrize(
    ("spoil", "filters"),
    [
        ("busy", [[], [], ["busy"], [], []]),
        ("quota", [[], [], ["quota"], ["quota"], ["quota"]]),
        ("policy", [[], [], ["policy"], ["policy"], ["policy"]]),
        ("spot", [[], [], [], [], []]),
        ("nothing", [[], [], [], [], []]),
    ],
)
def test_what_it_says_of_each_is_what_becomes_of_each(clock, spoil, filters):
    pool = make.pool(gpus=1, quota_gpus=2 if spoil == "quota" else 64)
    if spoil in ("busy", "spot"):
        repeating.blocked(pool, "2026-03-05T15:00", spot=spoil == "spot")
    if spoil == "policy":
        policies.create(cast.caller("alice"), draft=Draft("two-days", TWO_DAYS))
    assert why(previewed(pool)) == filters
    series: Series = repeating.opened(pool)
    booked = ["draft" if each else "placed" for each in filters]
    assert repeating.states(series) == booked
    assert invariants.violations() == []


def test_how_many_are_looked_at_is_bounded_by_horizon_and_number(clock, monkeypatch):
    pool = make.pool(recurrenceAhead="4d")
    assert len(why(previewed(pool, "FREQ=DAILY"))) == 3
    monkeypatch.setattr(occurrences, "LOOKS_MAX", 2)
    assert len(why(previewed(pool, "FREQ=DAILY"))) == 2
    assert len(why(previewed(pool, "FREQ=DAILY", "2026-05-01T15:00"))) == 1, "the first, always"
