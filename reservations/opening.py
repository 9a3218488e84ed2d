"""Opening a series: the row that a first occurrence brings with it.

A request with a recurrence is admitted as its first occurrence, and the series exists from the
transaction that places that one. So none is left of a request that was denied or is over a quota,
and the key that reaches the first occurrence again reaches its series with it (R8).
"""

import itertools
import json
from collections.abc import Mapping
from typing import Any

from bettercompute import clock, ids, sql
from bettercompute.iam.callers import Caller
from outbox import events
from pools.requests import NormalisedRequest
from reservations.lifecycle import Effects

SERIES = sql.load(__package__, "series")
KIND = "series"


def open_series(
    caller: Caller,
    first_id: str,
    request: NormalisedRequest,
    *,
    decision: Mapping[str, Any],
    confirmation_id: str,
) -> str:
    """Write the series of a first occurrence, before that is locked (C19); answers its id.

    It remembers whose call the first was decided for, and what the person was asked: so the others
    are decided, too (R36).
    """
    repeats = request.recurrence
    assert repeats is not None
    series_id = ids.series(first_id)
    _, second = itertools.islice(itertools.chain(repeats.starts(), [None, None]), 2)
    SERIES.run(
        "open",
        id=series_id,
        tenant_id=caller.tenant_id,
        pool_id=request.pool_id,
        owner_id=caller.account_id,
        agent=caller.agent,
        confirmation_id=confirmation_id,
        request=json.dumps(request.document),
        rule=repeats.rule.text,
        time_zone=repeats.zone.key,
        first_local=repeats.first.isoformat(),
        decision=json.dumps(decision),
        next_at=second,
    )
    return series_id


def of_first(series_id: str, request: NormalisedRequest) -> dict[str, Any]:
    """What the first occurrence's row says of its series, once that is opened."""
    assert request.start_ms is not None, "a recurrence has a start"
    return {"series_id": series_id, "occurrence_at": clock.from_ms(request.start_ms)}


def tell(effects: Effects, series_id: str, caller: Caller, pool_id: str) -> None:
    """Have its further occurrences booked, and say that it is there."""
    effects.wake(KIND, series_id)
    effects.tell(
        events.NewEvent(
            type="reservation.series-opened",
            tenant_id=caller.tenant_id,
            subject=f"series/{series_id}",
            data={"state": "active", "poolId": pool_id},
        )
    )
