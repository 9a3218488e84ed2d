"""How often strangers may be written down: each kind of refusal once a minute, all within a bound.

Of this process only, and forgotten with it: it spares the disk, it does not judge anybody.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

WINDOW_SECONDS = 60.0
PER_WINDOW_MAX = 60
KEPT_MAX = 1_000


@dataclass(slots=True)
class _Seen:
    since: float
    left_out: int = 0


@dataclass(slots=True)
class Repeats:
    """What was seen lately."""

    clock: Callable[[], float] = time.monotonic
    _seen: OrderedDict[tuple[str, ...], _Seen] = field(default_factory=OrderedDict)
    _window: _Seen = field(default_factory=lambda: _Seen(float("-inf")))
    _written: int = 0
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def count(self, *what: str) -> int | None:
        """How many like it were left out before, where it is to be written; None to leave it out.

        Beyond the bound of all together they are left out, too, whatever they are.
        """
        with self._guard:
            now = self.clock()
            if now - self._window.since >= WINDOW_SECONDS:
                self._window, self._written = _Seen(now), 0
            seen = self._seen.get(what)
            lately = seen is not None and now - seen.since < WINDOW_SECONDS
            if lately or self._written >= PER_WINDOW_MAX:
                self._seen.setdefault(what, _Seen(float("-inf"))).left_out += 1
                self._bound()
                return None
            self._written += 1
            self._seen[what] = _Seen(now)
            self._seen.move_to_end(what)
            self._bound()
            return 0 if seen is None else seen.left_out

    def _bound(self) -> None:
        while len(self._seen) > KEPT_MAX:
            self._seen.popitem(last=False)


REFUSALS = Repeats()
