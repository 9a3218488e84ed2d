"""An event loop whose time does not wait: where nothing is ready, the next deadline is now.

For what waits and looks again without threads and without a network. Between two steps just as much
time passes as somebody asked to wait for, however busy the machine is.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Skipping(selectors.DefaultSelector):
    """Takes a wait as over at once, and counts the seconds."""

    passed = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(timeout if timeout is None else 0)
        if timeout is not None and timeout > 0 and not ready:
            self.passed += timeout
        return ready


class SkippingLoop(asyncio.SelectorEventLoop):
    """Begins at zero."""

    def __init__(self) -> None:
        self._skipping = _Skipping()
        super().__init__(self._skipping)

    def time(self) -> float:
        """Seconds since it began."""
        return self._skipping.passed


def run(scenario: Coroutine[Any, Any, T]) -> T:
    """Run a scenario to its end, and wait for nothing."""
    with asyncio.Runner(loop_factory=SkippingLoop) as runner:
        return runner.run(scenario)
