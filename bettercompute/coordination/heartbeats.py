"""Which processes of the control plane could write to the database a moment ago (C38).

A gap in the heartbeats of a role is an outage of ours, never a silence of the nodes.
"""

from enum import StrEnum

from bettercompute import sql
from bettercompute.coordination import owner

HEARTBEATS = sql.load(__package__, "heartbeats")

BEAT_SECONDS = 5
ALIVE_SECONDS = 15
FORGET_SECONDS = 86_400


class Role(StrEnum):
    """What a process of the control plane is."""

    WEB = "web"
    GATEWAY = "gateway"
    WORKER = "worker"
    BEAT = "beat"


def beat(role: Role) -> None:
    """Say that this process can write, every five seconds."""
    HEARTBEATS.run("beat", process=owner.OWNER, role=role)


def stop(process: str | None = None) -> None:
    """Say that this process stops on purpose, or that another one is dead."""
    HEARTBEATS.run("stop", process=process or owner.OWNER)


def alive(role: Role, *, within_seconds: float = ALIVE_SECONDS) -> list[str]:
    """The processes of a role that beat within so many seconds, by id."""
    return [row[0] for row in HEARTBEATS.all("alive", role=role, seconds=within_seconds)]


def forget() -> int:
    """Remove the rows of processes long gone, and the leases that only they could take."""
    leases = HEARTBEATS.run("forget_own_leases", seconds=FORGET_SECONDS)
    return leases + HEARTBEATS.run("forget", seconds=FORGET_SECONDS)
