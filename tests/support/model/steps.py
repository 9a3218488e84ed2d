"""What may come next: plain data, which ``steps.step(number)`` of a failure says.

Hypothesis draws a number a step, and leaves steps out where it shortens a failure; what a number
means is drawn evenly here, since hypothesis by itself likes the same and the simplest again and
again, and then there is seldom enough at once to meet anything.
"""

import random
from typing import Any

from hypothesis import strategies as st

from tests.support.model import entries
from tests.support.model.product import CALLERS, MANNERS, VCPU

Step = tuple[Any, ...]

OWNER = "owner"
HOSTS = range(5)
UNCUT = (0, 1, 3, 4)  # what these report, they are: a card of the other was cut
KINDS = ("pass", "pass", "pass", "change", "change", "change", "create", "create", "fault")
#: how long, or: to the next moment that matters, or to just before it
PAUSES = ("next", "next", "next", "before", "1s", "40s", "6m", "20m", "20m", "3h", "11h")
VERBS = (
    *["extend"] * 4,
    *["renew", "renew", "ask_how_long"],
    *["release", "release", "cancel"],
    *["create_again", "create_another"],
)
GANGS = (*[None] * 6, (2, "any"), (2, "same-rack"), (3, "any"))
COUNTS = (1, 1, 1, 2, 2, {"min": 1, "max": 2}, {"min": 1, "max": 4})
FAULTS = {
    "behave": (HOSTS, MANNERS),
    "cordon": (HOSTS, (True, False, False)),
    "lose_contact": (HOSTS, (True, False, False)),
    "enforce_limits": (HOSTS, (True, True, False)),
    "fall_ill": (UNCUT, ((0, True), (1, True), (0, False), (1, False))),
    "change_size": (UNCUT, (VCPU, VCPU, 10, 18)),
    "quarantine": (HOSTS, ((0, True), (1, True), (0, False), (1, False))),
    "change_quota": ((0,), (2, 6, 64)),
}


def wish(rng: random.Random) -> dict[str, Any]:
    """What somebody asks for; starts are on a grid, so that windows touch."""
    line: dict[str, Any] = {"class": "gpu", "count": rng.choice(COUNTS)}
    if rng.random() < 0.15:
        line = {"class": "gpu.mig", "profile": "3g.40gb", "count": rng.choice([1, 2])}
    return {
        "pool": rng.choice([0, 0, 1]),
        "line": line,
        "gang": rng.choice(GANGS),
        "minutes": rng.choice([20, 60, 60, 120, 180, 240, 7 * 60]),
        "start": rng.choice([*[None] * 5, 1, 3, 6, 9, 12, 15, 90]),
        "lease": rng.choice([None, None, None, 300, 5_400]),
        "vcpu": rng.choice([None, None, None, 4, 20]),
    }


def change(rng: random.Random) -> dict[str, Any]:
    """What somebody does to a reservation."""
    verb = rng.choice(VERBS)
    if verb != "extend":
        return {"verb": verb}
    return {
        "verb": verb,
        "by": rng.choice([1, 20 * entries.MINUTE, entries.HOUR, 3 * entries.HOUR]),
        "until": rng.choice([None, None, None, 1, 9]),
        "key": rng.choice(["one", "another"]),
    }


def step(number: int) -> Step:
    """The step of a number: who does what to which, what happens to what, or how time passes."""
    rng = random.Random(number)
    match rng.choice(KINDS):
        case "create":
            return "create", rng.choice(CALLERS), wish(rng)
        case "change":
            # Mostly of one that the verb is good for, mostly by its owner.
            which = (rng.random() < 0.85, rng.randrange(8))
            return "change", which, rng.choice([OWNER, OWNER, OWNER, *CALLERS]), change(rng)
        case "fault":
            name = rng.choice(list(FAULTS))
            hosts, hows = FAULTS[name]
            return "fault", (name, rng.choice(hosts), rng.choice(hows))
        case _:
            return "pass", rng.choice(PAUSES)


def beginning(number: int) -> tuple[list[tuple[str, dict[str, Any]]], tuple[str, ...]]:
    """Who is there already, and how the agents are."""
    rng = random.Random(number)
    wishes = [(rng.choice(CALLERS), wish(rng)) for _ in range(4)]
    return wishes, tuple(rng.choice(MANNERS) for _ in HOSTS)


NUMBERS = st.integers(0, 2**32 - 1)
STEPS = NUMBERS.map(step)
BEGINNINGS = NUMBERS.map(beginning)
