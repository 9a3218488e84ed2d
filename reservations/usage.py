"""Usage: the device-time that reservations had, metered from bookings, not counters (R39)."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from bettercompute import errors, sql
from bettercompute.iam import decisions
from bettercompute.iam.callers import Caller
from bettercompute.iam.decisions import Attributes
from reservations import rights

USAGE = sql.load(__package__, "usage")

DAYS_MAX = 400


@dataclass(frozen=True, slots=True)
class Row:
    """What one group had, in thousandths of GPU-hours; what it is not grouped by is None."""

    day: date | None
    pool_id: str | None
    owner_id: str | None
    gpu_milli_hours: int
    idle_gpu_milli_hours: int  #: reserved, and not bound (yet)


def metered(
    caller: Caller,
    *,
    start: datetime,
    end: datetime,
    by: Collection[str] = (),
    zone: ZoneInfo,
    pool_id: str | None = None,
) -> list[Row]:
    """What the tenant had in ``[start, end)``, by any of day, pool and owner; days of a zone.

    Raises:
        errors.InvalidInput: the span is empty or too long.
        errors.AccessDenied: a policy denies reading the tenant's reservations.
    """
    _check_span(start, end)
    decisions.decide(
        caller, rights.READ, resource_id="usage", attributes=Attributes(tenant=caller.tenant_id)
    ).require()
    spans = list(_days(start, end, zone)) if "day" in by else [(start, end)]
    rows = USAGE.all(
        "metered",
        tenant_id=caller.tenant_id,
        pool_id=pool_id,
        since=start,
        until=end,
        starts=[begins for begins, _ in spans],
        ends=[ends for _, ends in spans],
        by_day="day" in by,
        by_pool="pool" in by,
        by_owner="owner" in by,
    )
    return [
        Row(None if begins is None else begins.astimezone(zone).date(), *rest)
        for begins, *rest in rows
    ]


def _check_span(start: datetime, end: datetime) -> None:
    if start >= end:
        raise errors.InvalidInput.at("to", "must be behind from")
    if end - start > timedelta(days=DAYS_MAX):
        raise errors.InvalidInput.at("to", f"must be at most {DAYS_MAX} days behind from")


def _days(start: datetime, end: datetime, zone: ZoneInfo) -> Iterator[tuple[datetime, datetime]]:
    """The span cut at each midnight of the zone: a day of a change of clocks has 23 or 25 hours."""
    begins = start
    while begins < end:
        tomorrow = begins.astimezone(zone).date() + timedelta(days=1)
        midnight = datetime.combine(tomorrow, time(), tzinfo=zone)
        ends = min(midnight.astimezone(start.tzinfo), end)
        yield begins, ends
        begins = ends
