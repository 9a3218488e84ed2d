"""Series in tests: made through admission, and reconciled until they are at rest."""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from bettercompute import clock as clocks
from bettercompute.coordination.runner import At
from pools.models import Pool
from reservations.models import Reservation, Series
from reservations.series import reconciler
from tests.support import cast, make

BERLIN = ZoneInfo("Europe/Berlin")
RUNS_MAX = 60


def at(text: str, zone: ZoneInfo = BERLIN) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=zone)


def opened(
    pool: Pool,
    rule: str = "FREQ=DAILY;COUNT=5",
    first: str = "2026-03-03T15:00",
    *,
    who: str = "bob",
    run: bool = True,
    **changes: Any,
) -> Series:
    """A series of an hour a time in Berlin, with all that is near enough booked."""
    recurrence = {"rule": rule, "timeZone": "Europe/Berlin"}
    start = clocks.to_ms(at(first))
    made = make.reservation(cast.caller(who), pool, start=start, recurrence=recurrence, **changes)
    assert made.series_id is not None
    if run:
        look(made.series_id)
    return Series.objects.get(pk=made.series_id)


def look(series_id: str) -> datetime | None:
    """Reconcile it until it asks for a later look; answers when."""
    for _ in range(RUNS_MAX):
        outcome = reconciler.reconcile(series_id, make.fence)
        if not isinstance(outcome, At):
            return None
        if outcome.instant > clocks.now():
            return outcome.instant
    raise AssertionError(f"{series_id} never comes to rest")


def occurrences(series: Series) -> list[Reservation]:
    return list(Reservation.objects.filter(series=series).order_by("occurrence_at"))


def states(series: Series) -> list[str]:
    return [each.state for each in occurrences(series)]


def local(series: Series) -> list[str]:
    """When they begin, as clocks in Berlin show it."""
    found = [each.occurrence_at for each in occurrences(series)]
    return [f"{each.astimezone(BERLIN):%m-%d %H:%M}" for each in found]


def why(reservation: Reservation) -> str:
    (condition,) = reservation.conditions
    return condition["reason"]


def blocked(pool: Pool, start: str, hours: int = 1, **changes: Any) -> Reservation:
    """Somebody else's reservation of the whole pool at that time."""
    made = make.reservation(
        cast.caller("alice"),
        pool,
        start=clocks.to_ms(at(start)),
        duration=f"{hours}h",
        **changes,
    )
    assert made.state == "placed"
    return made
