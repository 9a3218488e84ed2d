"""The self-check's words (C39): what must hold, by name, and what was found not to."""

import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

# Which rule a promise is of is for readers of the code.
_RULES = re.compile(r" \([A-Z]\d+(, [A-Z]\d+)*\)")

Look = Callable[[], Iterable["Finding"]]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong on a live system."""

    check: str  # area.check, such as outbox.horizon
    message: str  # what is wrong, with values
    do: str  # what an operator does about it


@dataclass(frozen=True, slots=True)
class Check:
    """One promise of the system, and how to look whether it is kept."""

    name: str
    promise: str
    #: What the rows say, at every instant, whatever runs late or is down. Tests under load demand
    #: it too, also those that take a guard away to see it broken.
    invariant: bool
    look: Look
    #: A template that shows a check does not run it.
    do_not_call_in_templates: ClassVar[bool] = True

    def __call__(self) -> list[Finding]:
        """What is wrong; empty is well."""
        return list(self.look())


def check(name: str, *, invariant: bool = False) -> Callable[[Look], Check]:
    """Make a check of a function; the first sentence of its docstring is the promise."""

    def made(look: Look) -> Check:
        first = (inspect.getdoc(look) or "").partition("\n\n")[0]
        promise = _RULES.sub("", " ".join(first.split()))
        assert promise, f"{name} does not say what it promises"
        return Check(name, promise, invariant, look)

    return made
