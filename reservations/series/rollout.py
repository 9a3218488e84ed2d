"""Writing down the occurrences that are near enough: a draft of each, yet to be decided and booked.

Each has its own row and id from then on, made from the series and the time at which the series has
it begin, so that a run which is repeated reaches the same rows. The row says what became of it:
booked, or why not yet, or that its time came first.
"""

import itertools
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from bettercompute import clock
from bettercompute.coordination.fencing import Fence
from bettercompute.iam.decisions import Attributes
from bettercompute.states import SeriesState
from pools import attributes, catalogue, occurrences, requests, shares
from pools.catalogue import PoolAccess
from pools.requests import NormalisedRequest
from reservations import admission, drafts
from reservations.admission import Ask
from reservations.drafts import Occurrence, Owner
from reservations.models import Series
from reservations.series import rows

STEP_MAX = 10  # of one run, so that others of its shard get their turn


def roll(series_id: str, fence: Fence) -> None:
    """Write the next occurrences within the horizon, some at a time."""
    series = Series.objects.filter(pk=series_id).first()
    if series is None or series.next_at is None or series.state != SeriesState.ACTIVE:
        return
    access = catalogue.of_tenant(series.tenant_id, series.pool_id)
    ask = _template(series, access)
    with fence():
        locked = rows.locked(series_id)
        if locked is None or locked.version != series.version:
            return  # cancelled, cut or rolled meanwhile
        starts = list(itertools.islice(_due(locked, access), STEP_MAX))
        for start in starts:
            _write(locked, ask, start)
        if starts:
            following = rows.recurrence_of(locked).starts_after(starts[-1])
            rows.amend(locked, {"next_at": _before_cut(locked, next(following, None))})


def _due(series: Series, access: PoolAccess) -> Iterator[datetime]:
    """The next occurrences that have no row, as far as the horizon and the most ahead go."""
    assert series.next_at is not None
    latest = series.read_at + occurrences.horizon(access.policy)
    ahead = rows.look(series.id).ahead
    for start in rows.recurrence_of(series).starts():
        if start < series.next_at:
            continue
        if start > latest or ahead >= occurrences.AHEAD_MAX or _before_cut(series, start) is None:
            return
        ahead += start > series.read_at
        yield start


def _before_cut(series: Series, start: datetime | None) -> datetime | None:
    if start is None or (series.cut_at is not None and start >= series.cut_at):
        return None
    return start


def _template(series: Series, access: PoolAccess) -> Ask:
    """What each occurrence asks for: what the first did, once."""
    request = requests.restore(_document(series), tenant_id=series.tenant_id)
    share = shares.host_share(access, request)
    return Ask(request, access, share, Attributes())


def _document(series: Series) -> dict[str, Any]:
    return {name: value for name, value in series.request.items() if name != "recurrence"}


def _write(series: Series, ask: Ask, start: datetime) -> None:
    start_ms = clock.to_ms(start)
    request: NormalisedRequest = ask.request.starting(start_ms)
    known = attributes.of(ask.access, request, ask.share, now_ms=clock.to_ms(series.read_at))
    drafts.record_occurrence(
        Owner(series.tenant_id, series.owner_id, series.agent),
        Occurrence(series.id, start_ms, series.confirmation_id),
        admission.Ask(request, ask.access, ask.share, known).draft(f"{series.id}/{start_ms}"),
    )
