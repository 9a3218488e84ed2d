"""What a control plane held when it was killed, and how the other one came to hold it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import psutil

from tests.support.deployment import waiting
from tests.support.deployment.deployment import Deployment, Plane
from tests.support.deployment.running import Process

WITHIN_SECONDS = 90.0

_HELD = """
SELECT name, owner, epoch, expires_at
  FROM leases
 WHERE note LIKE ANY (%s) AND expires_at > compute_now()
 ORDER BY name
"""
_TAKEN = """
SELECT name, owner, epoch, acquired_at
  FROM leases
 WHERE name = ANY (%s) AND owner <> ALL (%s) AND expires_at > compute_now()
 ORDER BY name
"""
_SESSIONS_ELSEWHERE = "SELECT count(*) FROM node_sessions WHERE gateway_id <> %s"


@dataclass(frozen=True, slots=True)
class Held:
    """One lease in force."""

    name: str
    owner: str
    epoch: int
    until: datetime


@dataclass(frozen=True, slots=True)
class Taken:
    """The next term of a lease."""

    name: str
    owner: str
    epoch: int
    since: datetime


@dataclass(frozen=True, slots=True)
class Takeover:
    """What a killed process held, and who holds it now."""

    killed_at: datetime
    held: Sequence[Held]
    taken: Sequence[Taken]

    @property
    def seconds(self) -> float:
        """From the kill until the last of its leases was somebody else's."""
        return max((each.since - self.killed_at).total_seconds() for each in self.taken)

    def check(self, *, within: timedelta) -> None:
        """No term began before the old one could have lapsed, and none later than ``within``."""
        now = {each.name: each for each in self.taken}
        for old in self.held:
            new = now[old.name]
            assert new.epoch > old.epoch, (old, new)
            assert new.since >= old.until, f"{old} was live when {new} began"
            assert new.since - old.until <= within, (old, new)


def held_by(running: Deployment, worker: Process) -> list[Held]:
    """What a worker holds now, or held when it was killed a moment ago."""
    return [Held(*row) for row in running.sql(_HELD, _notes([worker.pid]))]


def next_terms(running: Deployment, held: Sequence[Held], *, killed_at: datetime) -> Takeover:
    """Wait until every one of these leases is somebody else's."""
    names, owners = [each.name for each in held], [each.owner for each in held]

    def taken() -> list[Taken]:
        found = [Taken(*row) for row in running.sql(_TAKEN, names, owners)]
        return found if len(found) == len(names) else []

    return Takeover(killed_at, held, waiting.until(taken, "a takeover", WITHIN_SECONDS))


def gateway_id(running: Deployment, plane: Plane) -> str:
    """Who the gateway of a plane is to leases and sessions."""

    def leads() -> str:
        pids = [each.pid for each in psutil.Process(plane.gateway.pid).children()]
        owners = {owner for _, owner, _, _ in running.sql(_HELD, _notes(pids))}
        return owners.pop() if len(owners) == 1 else ""

    return waiting.until(leads, "the gateway to hold its lease")


def sessions_elsewhere(running: Deployment, gateway: str) -> int:
    """How many nodes have their session at another gateway than this one."""
    ((number,),) = running.sql(_SESSIONS_ELSEWHERE, gateway)
    return int(number)


def database_now(running: Deployment) -> datetime:
    """The instant by the one clock."""
    ((now,),) = running.sql("SELECT compute_now()")
    assert isinstance(now, datetime)
    return now


def _notes(pids: Sequence[int]) -> list[str]:
    return [f"% pid {pid}" for pid in pids]
