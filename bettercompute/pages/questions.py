"""What an agent asks its person for, in plain words: the same in the console and at a terminal.

Pure: it reads nothing, and whoever calls says how instants are printed and what things are called.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from bettercompute import durations, wanted
from bettercompute.pages import repeats

Asked = Mapping[str, Any]

IT = "it"

#: What an approval comes to, where that is not plain from what is asked.
MEANS: Mapping[str, str] = {
    "release": "What runs on it stops, and its devices go to others.",
    "cancel": "It never starts, and its devices go to others.",
    "share": "Exactly these people, besides its owner, see it and use its devices.",
    "cancel-series": "What has not begun never starts, and its devices go to others.",
}


@dataclass(frozen=True, slots=True)
class Told:
    """How it is told to who reads: how epoch milliseconds are printed, and what things are called.

    What knows no names says "it", and how many people.
    """

    instant: Callable[[int], str]
    thing: str = IT
    pool: str = ""
    people: Mapping[str, str] = field(default_factory=dict)


def summary(asked: Asked, told: Told) -> str:
    """What the agent wants, in a line."""
    return _VERBS[asked["verb"]](asked, told)


def _create(asked: Asked, told: Told) -> str:
    request = asked["request"]
    nodes = (request.get("gang") or {}).get("nodes", 1)
    what = " + ".join(map(wanted.line, request["devices"]))
    on = f" on each of {nodes} nodes" if nodes > 1 else ""
    where = f" in {told.pool}" if told.pool else ""
    length = durations.human(durations.parse(request["duration"]))
    start = request.get("start")
    when = "as soon as it fits" if start is None else f"from {told.instant(start)}"
    often = request.get("recurrence")
    again = f", {repeats.text(often['rule'])}" if often else ""
    users = request.get("users", ())
    shared = f", and share it with {_people(users, told)}" if users else ""
    return f"Reserve {what}{on}{where} for {length}, {when}{again}{shared}"


def _extend(asked: Asked, told: Told) -> str:
    return f"Extend {told.thing} until {told.instant(asked['until'])}"


def _renew(asked: Asked, told: Told) -> str:
    length = durations.human(asked["leaseSeconds"] * 1_000)
    lease = "its lease" if told.thing == IT else f"the lease of {told.thing}"
    return f"Renew {lease} for another {length}"


def _release(asked: Asked, told: Told) -> str:
    return f"Release {told.thing} now"


def _cancel(asked: Asked, told: Told) -> str:
    return f"Cancel {told.thing} before it starts"


def _share(asked: Asked, told: Told) -> str:
    users = asked["users"]
    if not users:
        return f"Stop sharing {told.thing}"
    return f"Share {told.thing} with {_people(users, told)}"


def _people(users: Collection[str], told: Told) -> str:
    if told.people.keys() >= set(users):
        return ", ".join(sorted(told.people[each] for each in users))
    members = "1 member" if len(users) == 1 else f"{len(users)} members"
    return f"{members} of the tenant"


def _cancel_series(asked: Asked, told: Told) -> str:
    ahead = f"from {told.instant(asked['from'])} on" if asked["from"] else "that is ahead"
    also = ", and release what runs" if asked["releaseRunning"] else ""
    return f"Cancel all of {told.thing} {ahead}{also}"


def _skip(asked: Asked, told: Told) -> str:
    return f"Leave out the occurrence of {told.instant(asked['occurrence'])}"


_VERBS: Mapping[str, Callable[[Asked, Told], str]] = {
    "create": _create,
    "extend": _extend,
    "renew": _renew,
    "release": _release,
    "cancel": _cancel,
    "share": _share,
    "cancel-series": _cancel_series,
    "skip": _skip,
}
