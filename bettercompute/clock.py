"""The one clock, seen from Python (C4-C8).

Every time comparison in SQL reads ``compute_now()``. Business time in Python comes from ``now()``
here: an offset between the database's clock and this process's monotonic clock, sampled at start
and again at every lease renewal. So a process with a wrong clock still judges by the one clock.

Tests point ``compute_now()`` at the table ``compute_sim_clock`` with ``use_sim_clock()``; ``now()``
then asks the database each time, since simulated time stands still between steps.
"""

import logging
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import connection, transaction

log = logging.getLogger(__name__)

DRIFT_MAX = timedelta(seconds=1)

_REAL_BODY = "SELECT now()"  # check-sql-now: allow
_SIMULATED_BODY = "SELECT ts FROM public.compute_sim_clock WHERE id = 1"
# compute_now() stands still during a transaction, and a process may first ask in an old one.
_THIS_INSTANT = (
    "SELECT compute_now() + (clock_timestamp() - transaction_timestamp())"  # check-sql-now: allow
)
# pg_temp last and nothing else: a temporary table of the caller must never be the clock.
_DEFINE = (
    "CREATE OR REPLACE FUNCTION compute_now() RETURNS timestamptz LANGUAGE sql STABLE AS $$ {} $$"
)


@dataclass(slots=True)
class _Anchor:
    """The database's time at one reading of the monotonic clock."""

    database: datetime
    monotonic: float

    def read(self) -> datetime:
        return self.database + timedelta(seconds=time.monotonic() - self.monotonic)


@dataclass(slots=True)
class _Process:
    """What this process knows of the one clock; rebuilt from ``compute_now()``."""

    anchor: _Anchor | None = None
    simulated: bool = False


_process = _Process()


def now() -> datetime:
    """The current instant by the one clock, aware, in UTC."""
    if _process.simulated:
        return _ask_database()
    if _process.anchor is None:
        synchronise()
    assert _process.anchor is not None
    return _process.anchor.read()


def now_ms() -> int:
    """The current instant as epoch milliseconds, rounded down."""
    return to_ms(now())


def to_ms(instant: datetime) -> int:
    """Epoch milliseconds, exactly (no float rounding)."""
    delta = instant - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400 + delta.seconds) * 1_000 + delta.microseconds // 1_000


def from_ms(milliseconds: int) -> datetime:
    """The instant of epoch milliseconds, in UTC.

    Raises:
        OverflowError: beyond what a datetime can hold; bound the input first.
    """
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)


def whole(instant: datetime) -> datetime:
    """The instant rounded down to a whole millisecond, as every end of a window is (R4)."""
    return instant.replace(microsecond=instant.microsecond // 1_000 * 1_000)


def synchronise() -> timedelta:
    """Anchor to the database's clock again; answers how far this process had drifted (C7)."""
    fresh = _sample()
    known = _process.anchor
    drift = timedelta(0) if known is None else fresh.read() - known.read()
    if abs(drift) > DRIFT_MAX:
        log.warning("ClockSkew: this process drifted %.3f s", drift.total_seconds())
    if known is None and abs(skew := _wall_skew(fresh)) > DRIFT_MAX:
        log.warning("ClockSkew: this host's clock is %.3f s off", skew.total_seconds())
    _process.anchor = fresh
    return drift


def drift() -> timedelta:
    """How far this process is ahead of the database's clock now, without anchoring again."""
    if _process.simulated or _process.anchor is None:
        return timedelta(0)
    return _process.anchor.read() - _sample().read()


def expected_body() -> str:
    """What ``compute_now()`` must be made of; simulated only for whoever follows such a clock."""
    return _SIMULATED_BODY if _process.simulated else _REAL_BODY


def _sample() -> _Anchor:
    """Ask the database; its answer is of the middle of the round trip."""
    before = time.monotonic()
    with connection.cursor() as cursor:
        cursor.execute(_THIS_INSTANT)
        (instant,) = cursor.fetchone()
    return _Anchor(instant.astimezone(UTC), (before + time.monotonic()) / 2)


def _wall_skew(anchor: _Anchor) -> timedelta:
    """How far the host's own clock is ahead; nothing decides by it, logs are read by it."""
    wall = datetime.fromtimestamp(time.time(), UTC)  # noqa: TID251  # check-sql-now: allow
    return wall - anchor.read()


def _ask_database() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT compute_now()")
        (instant,) = cursor.fetchone()
        result: datetime = instant
        return result.astimezone(UTC)


def use_sim_clock(instant: datetime) -> None:
    """Make ``compute_now()`` read ``compute_sim_clock``, starting at ``instant``.

    Only for tests and the simulation (C5), like all that follows here.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO compute_sim_clock (id, ts) VALUES (1, %s)"
            " ON CONFLICT (id) DO UPDATE SET ts = excluded.ts",
            [instant],
        )
        cursor.execute(_DEFINE.format(_SIMULATED_BODY))
    _process.simulated = True


def use_real_clock() -> None:
    """Make ``compute_now()`` the database's own clock again."""
    with connection.cursor() as cursor:
        cursor.execute(_DEFINE.format(_REAL_BODY))
    _process.simulated = False


def follow_sim_clock(simulated: bool = True) -> None:
    """Tell this process that the database's clock is (or is not) simulated, changing nothing."""
    _process.simulated = simulated


def set_sim_clock(instant: datetime) -> None:
    """Jump to ``instant``."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE compute_sim_clock SET ts = %s WHERE id = 1", [instant])


def advance_sim_clock(delta: timedelta) -> None:
    """Let ``delta`` pass."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE compute_sim_clock SET ts = ts + make_interval(secs => %s) WHERE id = 1",
            [delta.total_seconds()],
        )
