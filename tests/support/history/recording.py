"""What clients asked and what they were answered: an append-only log, one JSON line an event.

Times are this machine's monotonic clock: an invocation's is taken before the request is sent, an
answer's after it was read, so the server acted somewhere between the two. An answer that never came
leaves its operation open for ever: it may take effect at any later time, or never.
"""

import json
import math
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

FORMAT = 1
NEVER = math.inf


@dataclass(frozen=True, slots=True)
class Call:
    """One request, as a client meant it."""

    op: str  #: create, get, list, release, cancel, preview or quotas
    caller: str  #: whose token it carried
    tenant: str  #: the tenant it was for
    process: str = ""  #: which client thread
    key: str | None = None  #: the idempotency key of a create
    target: str | None = None  #: the reservation that a get, release or cancel names
    asked: Mapping[str, Any] = field(default_factory=dict)  #: the body, or the query of a list
    url: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, as it was read."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)  #: names in lower case


@dataclass(frozen=True, slots=True)
class Operation:
    """A request with whatever came of it."""

    id: int
    call: Call
    invoked: float
    completed: float = NEVER
    answer: Answer | None = None
    error: str = ""

    @property
    def status(self) -> int | None:
        """The answer's status; None where the answer was lost."""
        return None if self.answer is None else self.answer.status

    @property
    def acknowledged(self) -> bool:
        """The server said that it was done."""
        return self.status is not None and 200 <= self.status < 300

    @property
    def refused(self) -> bool:
        """The server said that it was not done and will not be.

        A 5xx says neither: the connection to the database may have broken after its COMMIT.
        """
        return self.status is not None and 400 <= self.status < 500 and self.status != 429

    @property
    def unknown(self) -> bool:
        """It may have been done, or may still be: no answer, or one that says neither."""
        return self.status is None or self.status >= 500

    @property
    def ended(self) -> float:
        """When it can no longer take effect; never, where that is unknown."""
        return NEVER if self.unknown else self.completed

    @property
    def code(self) -> str | None:
        """The problem's code of a refusal."""
        return self.document.get("code")

    @property
    def document(self) -> Mapping[str, Any]:
        """The answer's body where it is an object, else nothing."""
        body = None if self.answer is None else self.answer.body
        return body if isinstance(body, dict) else {}


@dataclass(frozen=True, slots=True)
class FinalState:
    """What there is after everything: every reservation, read through the API when all was calm.

    ``limits`` are the most that a tenant may hold, by tenant and resource, where nobody changed
    them during the history. ``closed`` says that nobody but the history's clients made reservations
    of these tenants. ``bookings`` are the database's own rows, where somebody read them:
    ``{"device", "allocation", "start_us", "end_us"}``.
    """

    reservations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    tenants: tuple[str, ...] = ()
    since: float = NEVER
    limits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    closed: bool = False
    bookings: tuple[Mapping[str, Any], ...] | None = None


@dataclass(frozen=True, slots=True)
class History:
    """All operations in the order of their invocations, and the final state where it was read."""

    operations: tuple[Operation, ...]
    final: FinalState | None = None


class Recorder:
    """Thread-safe. With a path every event is also written there as soon as it happened."""

    def __init__(self, path: Path | None = None) -> None:
        self._lock = threading.Lock()
        self._events: list[dict[str, Any]] = []
        self._ids = 0
        self._file = None if path is None else path.open("a", encoding="utf-8")
        self._append({"event": "history", "format": FORMAT})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; what was recorded stays readable."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def invoke(self, call: Call) -> int:
        """A request is about to be sent; answers the operation's id."""
        with self._lock:
            self._ids += 1
            number = self._ids
            self._append({"event": "invoke", "id": number, **asdict(call)})
        return number

    def answered(self, operation_id: int, answer: Answer) -> None:
        """Its answer has been read."""
        with self._lock:
            self._append({"event": "answer", "id": operation_id, **asdict(answer)})

    def lost(self, operation_id: int, why: str) -> None:
        """No answer came, or not all of it: what became of it is unknown."""
        with self._lock:
            self._append({"event": "lost", "id": operation_id, "error": why})

    def conclude(self, final: FinalState) -> None:
        """The final state, so that a file can be checked by itself."""
        with self._lock:
            self._append({"event": "final", **asdict(final)})

    def now(self) -> float:
        """The clock that events carry."""
        return time.monotonic()

    def history(self) -> History:
        """What was recorded so far."""
        with self._lock:
            return assemble(list(self._events))

    def _append(self, event: dict[str, Any]) -> None:
        # Under the lock, so the order of the lines is the order of their times.
        event["at"] = self.now()
        self._events.append(event)
        if self._file is not None:
            self._file.write(json.dumps(event, separators=(",", ":")) + "\n")
            self._file.flush()


class NotAHistory(ValueError):
    """These lines are not what a recorder writes."""


def read(path: Path) -> History:
    """The history in a file. A last line that its writer did not finish is left out."""
    lines = path.read_text(encoding="utf-8").split("\n")
    *whole, torn = lines
    if torn:
        whole += [torn] if _is_json(torn) else []
    return assemble(_parsed(line, number) for number, line in enumerate(whole, start=1))


def assemble(events: Iterable[Mapping[str, Any]]) -> History:
    """Operations from events.

    Raises:
        NotAHistory: an event that no recorder writes, or an end without its beginning.
    """
    open_: dict[int, Operation] = {}
    operations: dict[int, Operation] = {}
    final = None
    for event in events:
        match event.get("event"):
            case "history" if event.get("format") == FORMAT:
                pass
            case "invoke":
                begun = _begun(event)
                if begun.id in operations:
                    raise NotAHistory(f"operation {begun.id} is invoked twice")
                open_[begun.id] = operations[begun.id] = begun
            case "answer" | "lost":
                if event["id"] not in open_:
                    raise NotAHistory(f"operation {event['id']} ends and is not open")
                operations[event["id"]] = _ended(open_.pop(event["id"]), event)
            case "final":
                final = _final(event)
            case other:
                raise NotAHistory(f"no recorder writes {other!r}")
    return History(tuple(operations.values()), final)


def _begun(event: Mapping[str, Any]) -> Operation:
    names = Call.__dataclass_fields__
    call = Call(**{name: value for name, value in event.items() if name in names})
    return Operation(event["id"], call, invoked=event["at"])


def _ended(begun: Operation, event: Mapping[str, Any]) -> Operation:
    if event["event"] == "lost":
        return Operation(begun.id, begun.call, begun.invoked, error=event["error"])
    answer = Answer(event["status"], event["body"], event["headers"])
    return Operation(begun.id, begun.call, begun.invoked, event["at"], answer)


def _final(event: Mapping[str, Any]) -> FinalState:
    names = FinalState.__dataclass_fields__
    fields = {name: value for name, value in event.items() if name in names}
    fields["tenants"] = tuple(fields["tenants"])
    if fields["bookings"] is not None:
        fields["bookings"] = tuple(fields["bookings"])
    return FinalState(**fields)


def _parsed(line: str, number: int) -> dict[str, Any]:
    try:
        event: dict[str, Any] = json.loads(line)
    except ValueError as error:
        raise NotAHistory(f"line {number} is no JSON") from error
    return event


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def operations_of(history: History, *names: str) -> Iterator[Operation]:
    """The operations of these kinds."""
    return (each for each in history.operations if each.call.op in names)
