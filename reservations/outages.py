"""Outages of the API: while nobody can renew a lease, no lease runs on (C38).

Every web process beats; a gap of over 15 s between the beats of all of them is an outage. The beat
that ends it also writes it down, in the same statement, so there is no instant at which the API is
back and its outage unknown. The reservations' reconciler first adds an outage's length to the
leases it interrupted, once, and judges a lease only up to the last beat: a lease whose deadline
fell into an outage that still lasts is not judged at all.

Where no web process ever beat (a server that speaks only WSGI), leases are judged by the clock.
"""

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from bettercompute import sql
from bettercompute.coordination import heartbeats
from bettercompute.coordination.fencing import Fence
from bettercompute.coordination.heartbeats import Role

OUTAGES = sql.load(__package__, "outages")

GAP_SECONDS = heartbeats.ALIVE_SECONDS
FORGET_SECONDS = 90 * 86_400


@dataclass(frozen=True, slots=True)
class Judging:
    """How far leases may be judged; ``until`` is None where the API never beat."""

    until: datetime | None
    outage_pending: bool

    def lapsed(self, deadline: datetime, now: datetime) -> bool:
        """Whether this deadline of a lease passed while it could still be renewed."""
        if self.outage_pending:
            return False
        return deadline <= (now if self.until is None else min(self.until, now))


@transaction.atomic
def beat() -> None:
    """Say that this web process serves; find the outage that is over with it."""
    heartbeats.beat(Role.WEB)
    OUTAGES.run("beat", gap_seconds=GAP_SECONDS)


def judging() -> Judging:
    """How far leases may be judged. Read it under the reservation's lock.

    Whoever adds an outage's length needs that lock too: what it has added is then in the row, and
    what it has yet to add is seen here.
    """
    row = OUTAGES.one("judging")
    return Judging(None, outage_pending=False) if row is None else Judging(*row)


def make_up(fence: Fence) -> int:
    """Add every new outage's length to the leases it interrupted; answers how many outages."""
    count = 0
    while OUTAGES.all("unapplied")[0][0]:
        with fence():
            OUTAGES.run("apply_oldest")
        count += 1
    if count:
        OUTAGES.run("forget", seconds=FORGET_SECONDS)
    return count
