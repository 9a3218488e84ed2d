"""The work queue: rows that say where to look, never what to do (C25-C27).

A wake-up is written in the transaction that changed the state, so neither can exist without the
other. A run that succeeds deletes its row only if nothing woke the key meanwhile. The hint sent
after the commit makes it quick; nothing depends on it.
"""

import random
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from bettercompute import sql
from bettercompute.coordination import hints
from bettercompute.telemetry import tracing

WORKQUEUE = sql.load(__package__, "workqueue")

SHARDS = 16
CLAIM_SECONDS = 60  # a shard's new holder voids claims at once; this covers what it cannot see
BACKOFF_SECONDS_MAX = 300
ERROR_CHARACTERS_MAX = 2_000

Wanted = tuple[str, str, datetime | None]


@dataclass(frozen=True, slots=True)
class Claim:
    """One row that a worker is looking at."""

    id: int
    kind: str
    key: str
    gen: int
    attempts: int
    not_before: datetime
    late: timedelta
    origin: str | None  # of the work that asked for it last: ``tracing.origin``


@dataclass(frozen=True, slots=True)
class Failing:
    """A row that keeps failing."""

    kind: str
    key: str
    attempts: int
    age: timedelta  # since the first of these failures
    last_error: str


def shard_of(key: str) -> int:
    """The shard of a key: stable over processes and versions, unlike ``hash``."""
    return zlib.crc32(key.encode()) % SHARDS


def enqueue(kind: str, key: str, *, not_before: datetime | None = None) -> None:
    """Have ``key`` looked at, now or at ``not_before``, once this transaction commits."""
    enqueue_many([(kind, key, not_before)])


def enqueue_many(wanted: Iterable[Wanted]) -> None:
    """Have several keys looked at: ``(kind, key, when)``, where None is now. One statement."""
    rows = list(wanted)
    if not rows:
        return
    WORKQUEUE.run(
        "enqueue",
        kinds=[kind for kind, _, _ in rows],
        keys=[key for _, key, _ in rows],
        shards=[shard_of(key) for _, key, _ in rows],
        times=[when for _, _, when in rows],
        origin=tracing.origin(),
    )
    if any(when is None for _, _, when in rows):
        hints.send_on_commit()


def due_shards(shards: Iterable[int]) -> list[int]:
    """Of these shards, those with something to do, the most overdue first."""
    return [row[0] for row in WORKQUEUE.all("due_shards", shards=sorted(shards))]


def claim(shards: Iterable[int], *, limit: int) -> list[Claim]:
    """Claim due rows of these shards, in time order."""
    rows = WORKQUEUE.all("claim", shards=sorted(shards), limit=limit, claim_seconds=CLAIM_SECONDS)
    claims = [Claim(*row) for row in rows]
    return sorted(claims, key=lambda claim: (claim.not_before, claim.id))


def unclaim(shards: Iterable[int]) -> int:
    """Void every claim in these shards; only for their lease's holder."""
    return WORKQUEUE.run("unclaim", shards=sorted(shards))


def finish(claim: Claim, *, next_at: datetime | None = None) -> bool:
    """The run succeeded; False where a wake-up during the run keeps the row due."""
    if next_at is None:
        finished = WORKQUEUE.run("finish", id=claim.id, gen=claim.gen)
    else:
        finished = WORKQUEUE.run(
            "postpone", id=claim.id, gen=claim.gen, next_at=next_at, origin=tracing.origin()
        )
    if not finished:
        WORKQUEUE.run("leave", id=claim.id, gen=claim.gen)
    return finished == 1


def fail(claim: Claim, error: str) -> None:
    """The run failed: keep the row and try again later."""
    WORKQUEUE.run(
        "fail",
        id=claim.id,
        gen=claim.gen,
        error=error[:ERROR_CHARACTERS_MAX].replace("\x00", ""),
        backoff_seconds=backoff_seconds(claim.attempts),
    )


def backoff_seconds(attempts: int) -> float:
    """About 1, 2, 4, 8 … seconds, at most five minutes, with jitter so that failures spread."""
    full = min(2.0 ** min(attempts, 16), BACKOFF_SECONDS_MAX)
    return full * random.uniform(0.5, 1.0)  # noqa: S311  # spreading load, not a secret


def lag() -> tuple[int, timedelta]:
    """How many rows are overdue, and by how long the worst."""
    row = WORKQUEUE.one("lag")
    assert row is not None
    return row[0], row[1]


def failing(*, attempts_min: int, limit: int = 20) -> Sequence[Failing]:
    """Rows that failed at least so often in a row, the worst first."""
    rows = WORKQUEUE.all("failing", attempts_min=attempts_min, limit=limit)
    return [Failing(*row) for row in rows]
