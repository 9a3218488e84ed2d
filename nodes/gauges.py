"""What metrics say of hosts, their agents and their devices."""

from collections.abc import Iterable

from bettercompute import sql
from bettercompute.states import NodeState
from bettercompute.telemetry.gauges import Gauge, Look

GAUGES = sql.load(__package__, "gauges")

_AGENTS = ("connected", "disconnected", "unreachable", "never")
_DEVICES = ("usable", "cordoned", "unreachable", "unhealthy", "quarantined")


def agents() -> Iterable[Gauge]:
    """Whether agents are heard of; a node that never said hello is ``never``."""
    found = Gauge("agents", "Nodes, by whether their agent is heard of.", ("condition",))
    for condition in _AGENTS:
        found.add(0, condition)
    for condition, count in GAUGES.all("agents"):
        found.add(count, condition.lower())
    return (found,)


def nodes() -> Iterable[Gauge]:
    """Hosts by what they are to the scheduler."""
    found = Gauge("nodes", "Hosts by state, and whether they are cordoned.", ("state", "cordoned"))
    for state in NodeState:
        found.add(0, state, "false")
    for state, cordoned, count in GAUGES.all("nodes"):
        found.add(count, state, str(cordoned).lower())
    return (found,)


def devices() -> Iterable[Gauge]:
    """Bookable devices by model and state."""
    found = Gauge(
        "devices",
        "Devices that can be booked: usable, or the first thing that keeps them from it.",
        ("model", "mode", "state"),
    )
    for model, mode, state, count in GAUGES.all("devices"):
        for each in _DEVICES:
            found.add(0, model, mode, each)
        found.add(count, model, mode, state)
    return (found,)


ALL: tuple[Look, ...] = (agents, nodes, devices)
