"""Which processes of the control plane could write to the database a moment ago (C38).

A gap in the heartbeats of a role is an outage of ours, never a silence of the nodes.
"""

from bettercompute import sql
from bettercompute.coordination import owner

HEARTBEATS = sql.load(__package__, "heartbeats")

BEAT_SECONDS = 5
ALIVE_SECONDS = 15
FORGET_SECONDS = 86_400


def beat(role: str) -> None:
    """Say that this process can write, every five seconds: a web, gateway, worker or beat."""
    HEARTBEATS.run("beat", process=owner.OWNER, role=role)


def stop(process: str | None = None) -> None:
    """Say that this process stops on purpose, or that another one is dead."""
    HEARTBEATS.run("stop", process=process or owner.OWNER)


def alive(role: str, *, within_seconds: float = ALIVE_SECONDS) -> list[str]:
    """The processes of a role that beat within so many seconds, by id."""
    return [row[0] for row in HEARTBEATS.all("alive", role=role, seconds=within_seconds)]


def forget() -> int:
    """Remove the rows of processes long gone."""
    return HEARTBEATS.run("forget", seconds=FORGET_SECONDS)
