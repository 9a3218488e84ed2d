"""Reads of series: one with its occurrences, and a page."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import Count, Min, Q, QuerySet

from bettercompute import clock, errors
from bettercompute.columns import ComputeNow
from bettercompute.iam import decisions
from bettercompute.iam.callers import Caller
from bettercompute.iam.decisions import Attributes
from bettercompute.states import ReservationState, SeriesState
from bettercompute.wire import series as wire
from bettercompute.wire.base import PAGE_DEFAULT
from bettercompute.wire.reservations import Condition
from reservations import conditions, rights
from reservations.conditions import ConditionType
from reservations.models import Reservation, Series
from reservations.series import rows

PAST_SHOWN_MAX = 30
SHOWN_MAX = 200

_COMING = [ReservationState.DRAFT, ReservationState.PENDING, ReservationState.PLACED]


@dataclass(frozen=True, slots=True)
class Filters:
    """Which series a list shows."""

    scope: str = "mine"
    states: tuple[SeriesState, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """One page of series, newest first, and the cursor of the next."""

    items: tuple[wire.Series, ...]
    next_cursor: str | None


def get(caller: Caller, series_id: str) -> wire.SeriesWithOccurrences:
    """The series with what became of each occurrence.

    Raises:
        errors.NotFound: the caller's tenant has no such series.
        errors.AccessDenied: a policy denies it.
    """
    found = rows.access(caller, series_id)
    known = Attributes(tenant=found.tenant_id, owner=found.owner_id)
    decision = decisions.decide(caller, rights.READ, resource_id=found.id, attributes=known)
    decision.require()
    row = _with_counts(Series.objects.filter(pk=series_id)).get()
    shown = [_occurrence(each) for each in occurrences(row)]
    return wire.SeriesWithOccurrences(**dict(_answer(row)), occurrences=shown)


def occurrences(series: Series) -> list[Reservation]:
    """Its occurrences in order: all ahead that have rows, and the latest before."""
    found = Reservation.objects.filter(series=series)
    ahead = list(found.filter(occurrence_at__gt=ComputeNow()).order_by("occurrence_at")[:SHOWN_MAX])
    past = found.filter(occurrence_at__lte=ComputeNow()).order_by("-occurrence_at")
    return [*reversed(past[:PAST_SHOWN_MAX]), *ahead]


@dataclass(frozen=True, slots=True)
class Outline:
    """How a series repeats, and how many of its occurrences are in the states asked for."""

    rule: str
    count: int


def outlines(series_ids: Collection[str], states: Sequence[str]) -> dict[str, Outline]:
    """The outlines of these series, by id: one query, none for none."""
    if not series_ids:
        return {}
    among = Q(occurrences__state__in=states)
    found = Series.objects.filter(pk__in=series_ids)
    counted = found.annotate(count=Count("occurrences", filter=among))
    return {
        series_id: Outline(rule, count)
        for series_id, rule, count in counted.values_list("pk", "rule", "count")
    }


def page(
    caller: Caller, filters: Filters, *, limit: int = PAGE_DEFAULT, cursor: str | None = None
) -> Page:
    """The caller's own series, or the tenant's, newest first.

    Raises:
        errors.InvalidInput: the cursor is not a series of this list.
    """
    found = Series.objects.filter(tenant_id=caller.tenant_id)
    if filters.scope == "mine":
        found = found.filter(owner_id=caller.account_id)
    if cursor is not None:
        # Looked for before the states: it may have left its own since that page was read.
        found = found.filter(_behind(found, cursor))
    if filters.states:
        found = found.filter(state__in=filters.states)
    read = list(_with_counts(found).order_by("-created_at", "-id")[: limit + 1])
    shown = tuple(_answer(row) for row in read[:limit])
    return Page(shown, shown[-1].id if len(read) > limit else None)


def _behind(found: QuerySet[Series], cursor: str) -> Q:
    last = found.filter(id=cursor).values_list("created_at", "id").first()
    if last is None:
        raise errors.InvalidInput.at("cursor", "must be the nextCursor of an earlier page")
    created_at, last_id = last
    return Q(created_at__lt=created_at) | Q(created_at=created_at, id__lt=last_id)


def _with_counts(found: QuerySet[Series]) -> QuerySet[Series]:
    ahead = Q(occurrences__occurrence_at__gt=ComputeNow())
    coming = ahead & Q(occurrences__state__in=_COMING)
    return found.annotate(
        next_start=Min("occurrences__occurrence_at", filter=coming),
        unbooked=Count("occurrences", filter=ahead & Q(occurrences__state=ReservationState.DRAFT)),
    )


def _answer(row: Any) -> wire.Series:
    """A row with its counts, as answered."""
    return wire.Series(
        id=row.id,
        tenant_id=row.tenant_id,
        pool_id=row.pool_id,
        owner_identity_id=row.owner_id,
        agent=row.agent or None,
        confirmation_id=row.confirmation_id or None,
        state=SeriesState(row.state),
        rule=row.rule,
        time_zone=row.time_zone,
        request=row.request,
        conditions=[Condition.model_validate(entry) for entry in row.conditions],
        next_start=None if row.next_start is None else clock.to_ms(row.next_start),
        cut_at=None if row.cut_at is None else clock.to_ms(row.cut_at),
        unbooked=row.unbooked,
        version=row.version,
        created_at=clock.to_ms(row.created_at),
    )


def _occurrence(row: Reservation) -> wire.Occurrence:
    assert row.occurrence_at is not None
    booked = row.state != ReservationState.DRAFT
    end = row.occurrence_at + timedelta(milliseconds=row.duration_ms)
    why = _reason(row.conditions)
    return wire.Occurrence(
        start=clock.to_ms(row.occurrence_at),
        end=clock.to_ms(end if row.ends_at is None else row.ends_at),
        reservation_id=row.id if booked else None,
        state=ReservationState(row.state) if booked else None,
        reason=row.reason or (why or {}).get("reason"),
        message=(why or {}).get("message"),
    )


def _reason(found: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    return conditions.find(list(found), ConditionType.UNSCHEDULABLE)
