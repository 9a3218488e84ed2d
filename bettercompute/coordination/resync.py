"""Waking everything live every few minutes, so that a lost wake-up costs only time (C27)."""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice

from bettercompute.coordination import workqueue

BATCH = 1_000

Keys = Callable[[], Iterable[str]]


def run(kinds: Mapping[str, Keys]) -> int:
    """Enqueue every key of every kind, in small transactions; answers how many."""
    return sum(_enqueue(kind, iter(keys())) for kind, keys in kinds.items())


def _enqueue(kind: str, keys: Iterable[str]) -> int:
    remaining, count = iter(keys), 0
    while batch := list(islice(remaining, BATCH)):
        workqueue.enqueue_many((kind, key, None) for key in batch)
        count += len(batch)
    return count
