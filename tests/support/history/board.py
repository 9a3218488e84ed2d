"""What the load's clients know together: keys asked, reservations seen, the server's time."""

import itertools
import random
import threading
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.history import model
from tests.support.history.recording import Operation
from tests.support.history.wishes import Seat

RECENT_MAX = 60


@dataclass(frozen=True, slots=True)
class Made:
    """A create that somebody sent."""

    seat: Seat
    key: str
    body: Mapping[str, Any]


class Board:
    """Thread-safe; every client of one load writes what it learns here."""

    def __init__(self, prefix: str) -> None:
        self._lock = threading.Lock()
        self._prefix = prefix
        self._keys = itertools.count(1)
        self._taken = 0
        self._recent: deque[Made] = deque(maxlen=RECENT_MAX)
        self._targets: deque[tuple[str, Seat]] = deque(maxlen=RECENT_MAX)
        self._known_keys: set[str] = set()
        self._seen: dict[str, str] = {}  # reservation → state, as last heard
        self._live: dict[str, Seat] = {}
        self._tally: Counter[str] = Counter()
        self.now_ms: int | None = None

    def key(self) -> str:
        """A key that nobody of this load has used."""
        with self._lock:
            return f"{self._prefix}-{next(self._keys)}"

    def take(self, most: int) -> bool:
        """Whether one more operation may be done."""
        with self._lock:
            self._taken += 1
            return self._taken <= most

    def asked(self, made: Made) -> None:
        """A create is about to be sent for the first time."""
        with self._lock:
            self._recent.append(made)

    def learn(self, done: Operation, seat: Seat) -> None:
        """Remember what an operation told."""
        with self._lock:
            self._tally[f"{done.call.op} {done.status or 'lost'}"] += 1
            if not done.acknowledged:
                return
            if done.call.op == "create" and done.call.key is not None:
                self._known_keys.add(done.call.key)
            for shown in reservations_in(done):
                self._learn_one(shown, seat, own=done.call.op == "create")

    def crowded(self, most: int) -> bool:
        """Whether so many reservations are live that more would only wait."""
        with self._lock:
            return len(self._live) >= most

    def pick_made(self, rng: random.Random, *, known: bool = False) -> Made | None:
        """A recent create; ``known``: one that was acknowledged."""
        with self._lock:
            made = [each for each in self._recent if not known or each.key in self._known_keys]
        return rng.choice(made) if made else None

    def pick_target(self, rng: random.Random, *, ending: bool) -> tuple[str, Seat] | None:
        """A recent reservation; mostly a live one, where it is to be ended."""
        with self._lock:
            recent, live = list(self._targets), list(self._live.items())
        if ending and live and rng.random() < 0.8:
            return rng.choice(live)
        return rng.choice(recent) if recent else None

    def acknowledged(self) -> list[str]:
        """Every reservation that an answer showed."""
        with self._lock:
            return sorted(self._seen)

    def tally(self) -> Counter[str]:
        """Outcomes by kind."""
        with self._lock:
            return self._tally.copy()

    def _learn_one(self, shown: Mapping[str, Any], seat: Seat, *, own: bool) -> None:
        self.now_ms = max(self.now_ms or 0, shown["createdAt"])
        if shown["id"] not in self._seen and own:
            self._targets.append((shown["id"], seat))
        self._seen[shown["id"]] = shown["state"]
        if shown["state"] in model.TERMINAL:
            self._live.pop(shown["id"], None)
        elif own:
            self._live[shown["id"]] = seat


def reservations_in(done: Operation) -> Iterator[Mapping[str, Any]]:
    """The reservations that an acknowledged operation shows."""
    document = done.document
    if done.call.op == "list":
        yield from document.get("items", [])
    elif done.call.op in model.SHOWING and "id" in document and "state" in document:
        yield document
