"""Which occurrences of a recurrence would be booked, and why the others would not (case 20).

Each is judged for its own time, as ``preview`` judges one window: by the policies, which may allow
less the further ahead it is, by the quotas and budgets, which all that fit before it share, and by
the planner.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from bettercompute import clock
from bettercompute.iam.callers import Caller
from bettercompute.wire import capacity as wire
from pools import chance, judging, snapshot
from pools.catalogue import PoolAccess, PoolPolicy
from pools.judging import Beyond, MakeRoom
from pools.planner import reasons as planner
from pools.planner.plan import NoFit
from pools.quota import Usage
from pools.requests import NormalisedRequest
from pools.shares import Share

AHEAD_MAX = 120  # occurrences of one series that are booked, or wait to be
LOOKS_MAX = 60  # each costs a look at the pool


@dataclass(frozen=True, slots=True)
class Asked:
    """A recurring request, and what one occurrence of it would be charged."""

    request: NormalisedRequest
    access: PoolAccess
    share: Share
    charges: Mapping[str, int]


def horizon(policy: PoolPolicy) -> timedelta:
    """How far ahead occurrences are booked in a pool of this policy."""
    most = policy.recurrence_ahead
    return timedelta(milliseconds=min(most, policy.max_ahead or most))


def previewed(
    caller: Caller,
    asked: Asked,
    *,
    quotas: Sequence[Usage],
    now: datetime,
    make_room: MakeRoom | None = None,
    beyond: Beyond | None = None,
) -> list[wire.PreviewOccurrence]:
    """Every occurrence within the horizon, the first ``LOOKS_MAX`` of them.

    ``quotas`` are as they would be with one occurrence charged.
    """
    found: list[wire.PreviewOccurrence] = []
    booked: list[NormalisedRequest] = []
    for start in _starts(asked, now):
        after = [
            replace(row, used=row.used + len(booked) * asked.charges[row.resource])
            for row in quotas
        ]
        request = asked.request.starting(clock.to_ms(start))
        refused = [
            *judging.denials(caller, asked.access, request, asked.share, clock.to_ms(now)),
            *judging.over_quota(after, asked.charges),
            *(() if beyond is None else beyond(asked.access, request, now, beside=booked)),
        ]
        busy = _busy(replace(asked, request=request), start)
        if busy and not refused and make_room is not None:
            busy = [] if make_room(asked.access, request, asked.share) else busy
        found.append(_answer(request, start, [*refused, *busy]))
        if found[-1].fits:
            booked.append(request)
    return found


def _starts(asked: Asked, now: datetime) -> Iterator[datetime]:
    repeats = asked.request.recurrence
    assert repeats is not None
    latest = now + horizon(asked.access.policy)
    for number, start in enumerate(repeats.starts()):
        # The first is booked by the create itself, however far ahead it is.
        if number == LOOKS_MAX or (number and start > latest):
            return
        yield start


def _busy(asked: Asked, start: datetime) -> list[wire.Reason]:
    """Why the planner finds no place for it then; empty where it does."""
    request, access = asked.request, asked.access
    found = snapshot.find(
        access.pool_id,
        request.demand(asked.share.booked, replicas=access.policy.sharing.replicas),
        start=start,
        end=start + timedelta(milliseconds=request.duration_ms),
        rng=chance.RNG,
    )
    reasons = found.reasons if isinstance(found, NoFit) else ()
    return [planner.answered(reason) for reason in reasons]


def _answer(
    request: NormalisedRequest, start: datetime, reasons: list[wire.Reason]
) -> wire.PreviewOccurrence:
    start_ms = clock.to_ms(start)
    return wire.PreviewOccurrence(
        start=start_ms, end=start_ms + request.duration_ms, fits=not reasons, reasons=reasons
    )
