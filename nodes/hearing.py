"""Since when, and until when, nodes could have made themselves heard (C38).

Whatever a node has to do by a deadline, it can only tell us through a gateway that runs and that
reaches the database. So a deadline of a node counts only time in which somebody listened: not up
to the clock but up to the last beat of its gateway, and in full since the last gap in its beats.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from bettercompute import sql
from bettercompute.coordination import heartbeats

HEARING = sql.load(__package__, "hearing")

GAP_SECONDS = heartbeats.ALIVE_SECONDS
FORGET_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class Hearing:
    """What we could have heard of some nodes; both are None where no gateway ever ran."""

    since: datetime | None
    until: datetime | None

    def passed(self, deadline: datetime, *, allowed: timedelta, now: datetime) -> bool:
        """Whether nodes that were given ``allowed`` up to ``deadline`` had it, and let it pass."""
        if deadline > now:
            return False
        if self.since is None or self.until is None:
            return True
        return max(deadline, self.since + allowed) <= self.until


def beat(gateway_id: str, *, age_seconds: float = 0.0) -> None:
    """This gateway flushes, in this transaction, all that it knew so many seconds ago."""
    HEARING.run(
        "beat",
        gateway_id=gateway_id,
        age_seconds=max(age_seconds, 0.0),
        gap_seconds=GAP_SECONDS,
    )


def of(node_ids: Iterable[str]) -> Hearing:
    """Since when, and until when, each of these nodes could have made itself heard."""
    row = HEARING.one("of", node_ids=list(node_ids))
    return Hearing(None, None) if row is None else Hearing(*row)


def forget() -> int:
    """Remove the rows of gateways long gone."""
    return HEARING.run("forget", seconds=FORGET_SECONDS)
