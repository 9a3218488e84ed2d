"""Drives a client's flows by hand: no network, no sleep, time passes only by their pauses."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from bettercompute.client.calls import Answer, Call, Lost
from bettercompute.client.flows import Api, Flow, Pause, Send

T = TypeVar("T")


@dataclass
class Driver:
    """Hands back the scripted outcomes in turn and keeps what was sent and how long was slept."""

    outcomes: Iterable[Answer | Lost] | Callable[[Call], Answer | Lost]
    tenant: str | None = None
    timeout_seconds: float = 30.0
    seconds_per_send: float = 0.0
    now: float = 1_000.0
    sent: list[Send] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.api = Api(
            timeout_seconds=self.timeout_seconds,
            tenant=self.tenant,
            monotonic=lambda: self.now,
            jitter=lambda low, high: high,
        )
        self._script = None if callable(self.outcomes) else iter(self.outcomes)

    @property
    def calls(self) -> list[Call]:
        """What was sent."""
        return [send.call for send in self.sent]

    def run(self, flow: Flow[T]) -> T:
        """The flow's result."""
        outcome: Answer | Lost | None = None
        while True:
            try:
                step = flow.send(outcome)
            except StopIteration as done:
                return done.value
            outcome = self._step(step)

    def _step(self, step: Send | Pause) -> Answer | Lost | None:
        if isinstance(step, Pause):
            assert step.seconds >= 0
            self.pauses.append(step.seconds)
            self.now += step.seconds
            return None
        self.sent.append(step)
        self.now += self.seconds_per_send
        if self._script is None:
            return self.outcomes(step.call)
        return next(self._script)
