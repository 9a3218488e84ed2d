"""A confirmation in plain words. Pure: what is asked, and what a denial says."""

from collections.abc import Callable, Mapping
from typing import Any

from bettercompute import clock, durations
from reservations.models import Confirmation

Asked = Mapping[str, Any]
Instant = Callable[[int], str]


def denial(confirmation: Confirmation) -> str:
    """Why an agent may not: what its person said, or that a policy came between."""
    why = f": {confirmation.reason}" if confirmation.reason else ""
    return f"The person you act for denied this{why.rstrip('.')}."


def instant_in_utc(milliseconds: int) -> str:
    """An instant for who reads anywhere."""
    return f"{clock.from_ms(milliseconds):%Y-%m-%d %H:%M} UTC"


def summary(asked: Asked, *, instant: Instant = instant_in_utc) -> str:
    """What the agent wants, in a line; ``instant`` prints epoch milliseconds."""
    return _VERBS[asked["verb"]](asked, instant)


def _create(asked: Asked, instant: Instant) -> str:
    request = asked["request"]
    nodes = (request.get("gang") or {}).get("nodes", 1)
    what = " + ".join(_line(line) for line in request["devices"])
    on = f" on each of {nodes} nodes" if nodes > 1 else ""
    length = durations.human(durations.parse(request["duration"]))
    start = request.get("start")
    when = "as soon as it fits" if start is None else f"from {instant(start)}"
    repeats = ", again and again" if request.get("recurrence") else ""
    return f"Reserve {what}{on} for {length}, {when}{repeats}"


def _extend(asked: Asked, instant: Instant) -> str:
    return f"Extend it until {instant(asked['until'])}"


def _renew(asked: Asked, instant: Instant) -> str:
    return f"Renew its lease for another {durations.human(asked['leaseSeconds'] * 1_000)}"


def _release(asked: Asked, instant: Instant) -> str:
    return "Release it now"


def _cancel(asked: Asked, instant: Instant) -> str:
    return "Cancel it before it starts"


def _share(asked: Asked, instant: Instant) -> str:
    users = len(asked["users"])
    return f"Share it with {users} {'member' if users == 1 else 'members'} of the tenant"


def _cancel_series(asked: Asked, instant: Instant) -> str:
    ahead = f"from {instant(asked['from'])} on" if asked["from"] else "that is ahead"
    also = ", and release what runs" if asked["releaseRunning"] else ""
    return f"Cancel all of it {ahead}{also}"


def _skip(asked: Asked, instant: Instant) -> str:
    return f"Leave out the occurrence of {instant(asked['occurrence'])}"


_VERBS: Mapping[str, Callable[[Asked, Instant], str]] = {
    "create": _create,
    "extend": _extend,
    "renew": _renew,
    "release": _release,
    "cancel": _cancel,
    "share": _share,
    "cancel-series": _cancel_series,
    "skip": _skip,
}


def _line(line: Mapping[str, Any]) -> str:
    if "anyOf" in line:
        return " or ".join(map(_line, line["anyOf"]))
    count = line["count"]
    number = str(count) if isinstance(count, int) else f"{count['min']} to {count['max']}"
    plural = "" if number == "1" else "s"
    match line["class"]:
        case "gpu.mig":
            return f"{number} MIG {line.get('profile') or ''} instance{plural}"
        case "gpu.slot":
            return f"{number} GPU slot{plural}"
        case _:
            return f"{number} GPU{plural}"
