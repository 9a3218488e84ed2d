"""What the console says about a condition: a title, what a person could do, and a tone. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from bettercompute.wire.reservations import Condition


@dataclass(frozen=True, slots=True)
class Advice:
    """A condition in plain words; ``text`` is what to do about it."""

    title: str
    text: str
    tone: str


_BY_REASON: Mapping[str, Advice] = {
    "Unschedulable": Advice(
        "No devices fit yet",
        "It is placed by itself as soon as they do. To start sooner ask for fewer devices, "
        "a looser topology or another pool.",
        "amber",
    ),
    "NeverFits": Advice(
        "This pool can never serve it",
        "Waiting does not help, unless the pool gets other nodes. Cancel it, since it counts "
        "against your quota, and ask for less or in another pool.",
        "red",
    ),
    "Queued": Advice(
        "In the queue",
        "Nothing to do: the pool places its queue by priority, then age.",
        "blue",
    ),
    "AwaitingPerson": Advice(
        "Its owner has to approve this",
        "Nothing is held for it meanwhile. Once it is approved, the agent sends its request again.",
        "amber",
    ),
    "AwaitingAgent": Advice(
        "Approved: its agent has to come back",
        "Approving places nothing by itself; have the agent send the same request again.",
        "blue",
    ),
    "BindingLost": Advice(
        "A node no longer hands over the devices",
        "It binds again by itself. Restart work that lost its devices; release and reserve "
        "again if this lasts.",
        "red",
    ),
    "NodeUnreachable": Advice(
        "A node does not answer",
        "Work on it may go on. The reservation stays yours; save your results and watch this page.",
        "red",
    ),
    "DeviceUnhealthy": Advice(
        "A device reports a fault",
        "Move your work off it. Release and reserve again to get another one.",
        "red",
    ),
    "HostOvercommitted": Advice(
        "The host promises more than it has",
        "CPU or memory may run short; tell the pool’s operator.",
        "amber",
    ),
    "NodeMaintenance": Advice(
        "Maintenance is planned within its time",
        "It keeps its devices, which may not work meanwhile. If it has not started, it is moved "
        "before it does, where others are free.",
        "amber",
    ),
    "EndingSoon": Advice(
        "It ends soon",
        "Save your work: at the end the devices go to whoever comes next.",
        "amber",
    ),
    "OwnerUnresolved": Advice(
        "Its owner is gone",
        "It stays as it is until its end. An admin of the tenant can release it, or have an "
        "operator add the owner again.",
        "amber",
    ),
    "Preempting": Advice(
        "It gives way soon",
        "Save your work now: it is a spot reservation and ends when its notice does. To go on, "
        "reserve again; what must not be interrupted is reserved without spot.",
        "red",
    ),
    "NoShow": Advice(
        "Nobody uses it",
        "Start your work on its devices, or release it for others. It ends by itself unless "
        "something uses them.",
        "red",
    ),
    "AwaitingPreemption": Advice(
        "Spot reservations give way to it",
        "Nothing to do: it starts by itself. Cancel it if you need it no more, then they stay.",
        "blue",
    ),
    "Preempted": Advice(
        "It had to give way before its start",
        "It is placed again by itself as soon as devices fit. What must not be moved is reserved "
        "without spot.",
        "amber",
    ),
}


def on(condition: Condition) -> Advice:
    """The advice for its reason, else for its type, else its bare name."""
    unknown = Advice(condition.reason or condition.type, "", "amber")
    return _BY_REASON.get(condition.reason) or _BY_REASON.get(condition.type) or unknown
