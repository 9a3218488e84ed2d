"""Who is in charge of what and since when, for people (C29): leases in words."""

import importlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings

from bettercompute import sql
from bettercompute.coordination import holdings, workqueue

ROLES = sql.load(__package__, "roles")

_DISPATCH = "singleton:outbox-dispatch:"


@dataclass(frozen=True, slots=True)
class Role:
    """A role and its holder, or the last one it had."""

    name: str
    held: bool
    owner: str
    note: str
    epoch: int  # how many terms there were: each takeover is one
    since: datetime | None
    lapses_in: timedelta | None

    @property
    def words(self) -> str:
        """What the holder does."""
        return words(self.name)


def words(name: str) -> str:
    """A lease's name in words."""
    kind, _, what = name.partition(":")
    if name.startswith(_DISPATCH):
        return f"events to {name.removeprefix(_DISPATCH)}"
    match kind:
        case "shard":
            return f"shard {what} of the work queue"
        case "singleton":
            return f"periodic job {what}"
        case "gateway":
            return "gateway of node agents"
        case "pool":
            return f"placer of pool {what}"
    return name


def wanted() -> list[str]:
    """The leases that somebody should hold wherever workers live: shards and periodic jobs."""
    wiring: Any = importlib.import_module(settings.WIRING)
    shards = [holdings.shard_name(shard) for shard in range(workqueue.SHARDS)]
    return shards + [f"singleton:{job}" for job in wiring.ticks()]


def listed() -> list[Role]:
    """Every role, by name; also those that nobody holds."""
    return [Role(*row) for row in ROLES.all("listed", names=wanted())]
