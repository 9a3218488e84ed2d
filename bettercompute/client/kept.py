"""Answers that are kept to ask "has it changed?" instead of reading them again.

The server is asked every time, so what a caller gets is always current; it answers 304 and nothing
more where what we have is still right. Polling for a reservation mostly reads that.
"""

import threading
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import TypeAlias, TypeVar

from bettercompute.client.calls import Answer, Call, Lost

T = TypeVar("T")

KEPT_MAX = 64
BYTES_MAX = 65_536  # of one body; larger ones are read again
NOT_MODIFIED = 304

Key: TypeAlias = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(slots=True)
class Kept:
    """The last good answers that had an ETag, by what was asked. Safe to share between threads."""

    _answers: OrderedDict[Key, Answer] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def asking(self, call: Call[T]) -> tuple[Call[T], Answer | None]:
        """The call as it is to be sent, and the answer that a 304 to it stands for."""
        known = self._find(call)
        if known is None:
            return call, None
        header = ("If-None-Match", known.headers["etag"])
        return replace(call, headers=(*call.headers, header)), known

    def answered(
        self, call: Call[T], known: Answer | None, outcome: Answer | Lost
    ) -> Answer | Lost:
        """The answer that this outcome stands for; a good one is kept for the next time."""
        if isinstance(outcome, Lost) or call.method != "GET":
            return outcome
        if outcome.status == NOT_MODIFIED and known is not None:
            return known
        if outcome.status == 200 and "etag" in outcome.headers:
            self._keep(call, outcome)
        return outcome

    def _find(self, call: Call[T]) -> Answer | None:
        if call.method != "GET":
            return None
        with self._lock:
            return self._answers.get((call.path, call.query))

    def _keep(self, call: Call[T], answer: Answer) -> None:
        if len(answer.body) > BYTES_MAX:
            return
        with self._lock:
            self._answers[call.path, call.query] = answer
            self._answers.move_to_end((call.path, call.query))
            if len(self._answers) > KEPT_MAX:
                self._answers.popitem(last=False)
