"""The rows of series: found for a caller, locked, and changed."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.db.models import QuerySet

from bettercompute import clock, errors, sql, states, transitions
from bettercompute.columns import ComputeNow
from bettercompute.iam.callers import Caller
from bettercompute.states import SeriesState
from outbox import events
from outbox.events import NewEvent
from pools import recurrence
from pools.recurrence import Recurrence
from reservations.models import Reservation, Series

OCCURRENCES = sql.load(__package__, "occurrences")


def access(caller: Caller, series_id: str) -> Series:
    """The series, if the caller's tenant has it.

    Raises:
        errors.NotFound: there is none, or it is another tenant's.
    """
    return _of_tenant(caller, Series.objects.all(), series_id)


def access_locked(caller: Caller, series_id: str) -> Series:
    """The same, locked FOR NO KEY UPDATE: nobody writes down occurrences meanwhile."""
    return _of_tenant(caller, _locking(), series_id)


def _of_tenant(caller: Caller, rows: QuerySet[Series], series_id: str) -> Series:
    found = rows.filter(id=series_id, tenant_id=caller.tenant_id).first()
    if found is None:
        raise errors.NotFound(f"There is no series {series_id[:100]} in this tenant.")
    return found


def locked(series_id: str) -> Series | None:
    """The row a reconciler works on, locked; None where there is none."""
    return _locking().filter(id=series_id).first()


def _locking() -> QuerySet[Series]:
    rows = Series.objects.select_for_update(no_key=True)
    # Declared on the model too, so that its readers are typed.
    return rows.annotate(read_at=ComputeNow())  # type: ignore[no-redef]


def live_keys() -> list[str]:
    """Every series that somebody has to look at: for the resync (C27)."""
    return [key for (key,) in OCCURRENCES.all("live_keys")]


@dataclass(frozen=True, slots=True)
class Seen:
    """How far its occurrences have rows, and when one of these asks for a look."""

    ahead: int
    first_ahead: datetime | None
    last_at: datetime | None
    retry_at: datetime | None
    unbooked_at: datetime | None


def look(series_id: str) -> Seen:
    """What the rows of its occurrences say now."""
    row = OCCURRENCES.one("horizon", series_id=series_id)
    assert row is not None
    return Seen(*row)


def still_has(occurrence: Reservation) -> bool:
    """Whether its series still has this occurrence."""
    row = OCCURRENCES.one(
        "still_has",
        series_id=occurrence.series_id,
        occurrence_at=occurrence.occurrence_at,
    )
    return row is not None


def recurrence_of(series: Series) -> Recurrence:
    """When its occurrences begin."""
    first = datetime.fromisoformat(series.first_local)
    rule = recurrence.parse(series.rule, weekday=first.weekday())
    return Recurrence(rule, ZoneInfo(series.time_zone), first)


def amend(series: Series, values: Mapping[str, Any]) -> None:
    """Change what is no state of the locked series, with its version (C2)."""
    for name, value in values.items():
        setattr(series, name, value)
    series.version += 1
    series.save(update_fields=[*values, "version"])


def finish(series: Series, after: SeriesState, values: Mapping[str, Any] | None = None) -> None:
    """Move the locked series to its end, and tell.

    Raises:
        errors.InvalidState: it has ended before.
    """
    transitions.move(
        states.SERIES,
        row_id=series.id,
        version=series.version,
        before=series.state,
        after=after,
        values={"ended_at": series.read_at, "next_at": None, "conditions": [], **(values or {})},
    )
    tell(series, str(after), state=after)


def tell(series: Series, verb: str, *, state: str = "", **data: Any) -> None:
    """Tell that something happened to a series, last in the transaction (C19)."""
    events.publish_many([event(series, verb, state=state, **data)])


def event(series: Series, verb: str, *, state: str = "", **data: Any) -> NewEvent:
    """What is told when something happens to a series or to its next occurrences."""
    at = data.pop("occurrence_at", None)
    occurrence = {} if at is None else {"occurrence": clock.to_ms(at)}
    return NewEvent(
        type=f"reservation.series-{verb}",
        tenant_id=series.tenant_id,
        subject=f"series/{series.id}",
        data={"state": state or series.state, "poolId": series.pool_id, **occurrence, **data},
    )
