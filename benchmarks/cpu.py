"""Processor time by part: unlike the clock on the wall, it does not mind a busy machine."""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psutil

POSTGRES, VALKEY, WEB, CLIENT = "PostgreSQL", "Valkey", "web", "clients"
_NAMES = {"postgres": POSTGRES, "valkey-server": VALKEY}


@dataclass(slots=True)
class Spent:
    """Seconds of processor time, by part."""

    seconds: dict[str, float] = field(default_factory=dict)

    def milliseconds_each(self, part: str, number: int) -> float:
        """For each of so many requests."""
        return self.seconds.get(part, 0.0) * 1_000 / max(number, 1)


@contextmanager
def counted() -> Iterator[Spent]:
    """What this process and its children spend meanwhile."""
    spent = Spent()
    before = _now()
    yield spent
    after = _now()
    spent.seconds = {part: after[part] - before[part] for part in after}


def _now() -> Counter[str]:
    this = psutil.Process(os.getpid())
    found: Counter[str] = Counter({CLIENT: _seconds(this)})
    for child in this.children(recursive=True):
        try:
            found[_NAMES.get(child.name(), WEB)] += _seconds(child)
        except psutil.NoSuchProcess:
            continue  # a backend whose connection was closed
    return found


def _seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
