"""Following a stream through everything that ends one: where to go on, how soon, when to give up.

A stream ends for good reasons (the server restarts, a proxy's patience, a train in a tunnel), so
whoever follows it is never told: it is opened again behind the last id, and nothing is missed or
comes twice. What cannot be followed any more is an exception: the token has ended, the server
cannot be trusted, or was not reached for ``PATIENCE_SECONDS``.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from pydantic import ValidationError

from bettercompute.client import calls, failures, flows
from bettercompute.client.calls import Answer, Lost
from bettercompute.client.flows import Api
from bettercompute.client.sse import Frame, FrameTooLarge, Parser
from bettercompute.wire.events import Event, StreamReset

PATH = f"{calls.API}/events/stream"
IDLE_SECONDS = 45.0  # three heartbeats: whoever is silent for so long is gone
PATIENCE_SECONDS = 300.0
PAUSE_SECONDS_MAX = 30.0
RETRY_MS = 2_000
RETRY_MS_MAX = 60_000


@dataclass(frozen=True, slots=True)
class Streamed:
    """An event, and the position to go on from behind it.

    Without an event: some may have been missed before this position (they are not kept any more).
    Read again what you know, then go on.
    """

    position: str
    event: Event | None


@dataclass(slots=True)
class Following:
    """One stream that is followed."""

    api: Api
    query: tuple[tuple[str, str], ...]
    position: str | None = None
    _parser: Parser = field(default_factory=Parser)
    _retry_ms: int = RETRY_MS
    _failures: int = 0
    _failing_since: float | None = None

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the next request."""
        headers = {
            "Accept": "text/event-stream",
            "Accept-Encoding": "identity",  # it is read as it comes, and never unpacked
            "Cache-Control": "no-store",
        }
        return headers | ({"Last-Event-ID": self.position} if self.position else {})

    def begin(self) -> None:
        """It is open again."""
        self._parser = Parser()

    def feed(self, chunk: bytes) -> Iterator[Streamed]:
        """What these bytes bring.

        Raises:
            UnexpectedAnswer: they are not of this API.
        """
        try:
            frames = self._parser.feed(chunk)
        except FrameTooLarge as error:
            raise failures.UnexpectedAnswer("The stream has an event without end.") from error
        for frame in frames:
            self._failures, self._failing_since = 0, None
            streamed = self._take(frame)
            if streamed is not None:
                yield streamed

    def lose(self, outcome: Answer | Lost | None) -> float:
        """It is over, or could not be opened: how long to wait before it is opened again.

        None stands for a stream that the server ended properly.

        Raises: any exception of ``failures``, where to wait does not help any more.
        """
        if outcome is None:
            return self.api.jitter(self._retry_ms / 2, self._retry_ms) / 1_000
        error = _error(outcome)
        now = self.api.monotonic()
        since = self._failing_since = now if self._failing_since is None else self._failing_since
        self._failures += 1
        error.attempts = self._failures
        if not calls.may_pass(outcome) or now - since > PATIENCE_SECONDS:
            raise error
        longest = min(self._retry_ms / 1_000 * 2 ** min(self._failures - 1, 10), PAUSE_SECONDS_MAX)
        return flows.pause(self.api, error, longest=longest)

    def _take(self, frame: Frame) -> Streamed | None:
        if frame.retry_ms is not None:
            self._retry_ms = min(frame.retry_ms, RETRY_MS_MAX)
        if frame.id is not None:
            self.position = frame.id or None
        if frame.data is None or self.position is None:
            return None
        try:
            if frame.event == "reset":
                return Streamed(StreamReset.model_validate_json(frame.data).position, None)
            return Streamed(self.position, Event.model_validate_json(frame.data))
        except ValidationError as error:
            raise failures.UnexpectedAnswer("The stream has what is no event of ours.") from error


def _error(outcome: Answer | Lost) -> failures.ClientError:
    if isinstance(outcome, Lost):
        return calls.unreachable(outcome)
    return calls.problem(outcome) or failures.UnexpectedAnswer(
        "This is no stream of Better Compute.", status=outcome.status
    )
