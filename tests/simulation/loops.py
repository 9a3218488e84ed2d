"""An event loop in simulated time: timers fire when the simulated clock says so; nothing waits."""

import asyncio
from collections.abc import Callable
from typing import Any

TURNS_MAX = 10_000


class _NoFiles:
    """A selector that watches nothing: all that comes from outside comes by call."""

    def select(self, timeout: float | None = None) -> list[Any]:
        """Nothing is ever ready."""
        return []

    def close(self) -> None:
        """Nothing to let go of."""


class Loop(asyncio.BaseEventLoop):
    """One process's event loop."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        super().__init__()
        self._selector = _NoFiles()
        self._seconds = seconds
        self.set_exception_handler(self._remember)
        self.mistakes: list[str] = []

    def time(self) -> float:
        """Simulated seconds."""
        return self._seconds()

    def settle(self) -> int:
        """Run all that can run at this instant; answers how many turns that took."""
        for turn in range(TURNS_MAX):
            if not self.busy():
                return turn
            self.stop()
            self.run_forever()
        raise AssertionError("the loop never comes to rest at one instant")

    def busy(self) -> bool:
        """Whether something could run now."""
        due = self._scheduled and self._scheduled[0]._when <= self.time()
        return bool(self._ready or due)

    def kill(self) -> None:
        """The process dies: no task runs on. Doing it again changes nothing."""
        if self.is_closed():
            return
        for task in asyncio.all_tasks(self):
            task._log_destroy_pending = False
            task.get_coro().close()
        self._ready.clear()
        self._scheduled.clear()
        self.close()

    def _process_events(self, event_list: Any) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody sleeps in a selector."""

    def _remember(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.mistakes.append(str(context.get("exception") or context["message"]))
