"""The load: client threads that reserve, retry, read, list and give back over HTTP, all recorded.

Each thread is one client: one request at a time, to one control plane until that fails, then to the
next. What it asks for comes from the seed and its number; what it meets does not. A create, release
or cancel whose answer was lost or says nothing final is sent again later, a create with its own key
and body; ``stop`` goes on until every one of them is known.
"""

import random
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

import httpx2

from tests.support.history.board import Board, Made
from tests.support.history.recording import Answer, Call, Operation, Recorder
from tests.support.history.wishes import Seat, Wishes, twisted

RETRY_AFTER_MAX = 1.0
PAGE_LIMITS = (5, 50, 200)

#: How often each operation comes.
MIX = {
    "create": 34,
    "replay": 9,
    "twist": 5,
    "get": 18,
    "list": 8,
    "release": 13,
    "cancel": 6,
    "preview": 3,
    "stranger": 2,
    "quotas": 2,
}


class Unsettled(AssertionError):
    """Creates, releases or cancels of which nobody knows what became."""


@dataclass(slots=True)
class Load:
    """Client threads; use as a context manager, or ``start`` and ``stop``."""

    recorder: Recorder
    urls: Sequence[str]
    seats: Sequence[Seat]
    seed: int = 0
    threads: int = 4
    rate: float = 20.0  #: operations a second, of all threads together
    seconds_max: float = 600.0  #: no new operations after so long, even if nobody stops it
    operations_max: int = 100_000
    timeout: float = 10.0  #: of one request
    live_max: int = 12  #: above so many live reservations, give back instead of asking for more
    wishes: Wishes = field(default_factory=Wishes)
    mix: Mapping[str, int] = field(default_factory=lambda: MIX)
    settle_within: float = 60.0
    _board: Board = field(init=False)
    _stopping: threading.Event = field(init=False)
    _abandon: threading.Event = field(init=False)
    _clients: list["_Client"] = field(init=False)

    def __post_init__(self) -> None:
        self._board = Board(prefix=f"load-{self.seed}")
        self._stopping = threading.Event()
        self._abandon = threading.Event()
        self._clients = [_Client(self, number) for number in range(self.threads)]

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # After a failure inside the block nobody waits for what is still unknown.
        self.stop(within=self.settle_within if kind is None else 0.0)

    @property
    def acknowledged(self) -> list[str]:
        """Every reservation that a client was told of."""
        return self._board.acknowledged()

    @property
    def tally(self) -> Counter[str]:
        """How often what came of what: ``create 201``, ``get lost``."""
        return self._board.tally()

    def start(self) -> Self:
        """Start the threads."""
        for client in self._clients:
            client.thread.start()
        return self

    def wait(self) -> None:
        """Until the threads have done all that they may: ``operations_max``, ``seconds_max``."""
        for client in self._clients:
            client.worked.wait()

    def stop(self, *, within: float | None = None) -> None:
        """No new operations; send what is unknown again until it is known.

        Raises:
            Unsettled: some are still unknown after so many seconds.
        """
        self._stopping.set()
        patience = threading.Timer(
            self.settle_within if within is None else within, self._abandon.set
        )
        patience.start()
        for client in self._clients:
            client.thread.join()
        patience.cancel()
        for client in self._clients:
            if client.failure is not None:
                raise client.failure
        unsettled = [str(each) for client in self._clients for each in client.unsettled]
        if unsettled and within != 0.0:
            raise Unsettled("; ".join(unsettled))


class _Client:
    """One thread of the load."""

    def __init__(self, load: Load, number: int) -> None:
        self.load = load
        self.name = f"client-{load.seed}-{number}"
        self.rng = random.Random(f"{load.seed} {number}")
        self.at = number  # whose control plane it talks to, counted round
        self.unsettled: deque[Call] = deque()
        self.failure: BaseException | None = None
        self.http = httpx2.Client(timeout=load.timeout, trust_env=False)
        self.worked = threading.Event()
        self.thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    def _run(self) -> None:
        try:
            with self.http:
                self._work()
                self.worked.set()
                self._settle()
        except BaseException as error:  # noqa: BLE001  # raised again by stop()
            self.failure = error
        finally:
            self.worked.set()

    def _work(self) -> None:
        load, board = self.load, self.load._board
        stopping = load._stopping
        patience = threading.Timer(load.seconds_max, stopping.set)
        patience.daemon = True
        patience.start()
        try:
            while not stopping.is_set() and board.take(load.operations_max):
                if self.unsettled and self.rng.random() < 0.5:
                    self._send(self.unsettled.popleft())
                else:
                    self._something()
                pause = load.threads / load.rate
                stopping.wait(self.rng.uniform(0.5 * pause, 1.5 * pause))
        finally:
            patience.cancel()

    def _settle(self) -> None:
        pause = 0.1
        while self.unsettled and not self.load._abandon.is_set():
            self._send(self.unsettled.popleft())
            self.load._abandon.wait(pause)
            pause = min(pause * 1.5, RETRY_AFTER_MAX)

    def _something(self) -> None:
        """One operation of the mix; one that has nothing to act on yet is a create."""
        mix = self.load.mix
        (name,) = self.rng.choices(list(mix), list(mix.values()))
        if name in {"create", "replay"} and self.load._board.crowded(self.load.live_max):
            name = self.rng.choice(["release", "cancel", "get"])
        how: dict[str, Callable[[], Call | None]] = {
            "create": lambda: None,
            "replay": self._replay,
            "twist": self._twist,
            "get": lambda: self._on_target("get"),
            "list": self._list,
            "release": lambda: self._on_target("release"),
            "cancel": lambda: self._on_target("cancel"),
            "preview": self._preview,
            "stranger": self._stranger,
            "quotas": self._quotas,
        }
        self._send(how[name]() or self._create())

    # --- operations -----------------------------------------------------------------------------

    def _call(self, op: str, seat: Seat, **more: Any) -> Call:
        return Call(op, caller=seat.name, tenant=seat.tenant, process=self.name, **more)

    def _create(self) -> Call:
        board, seat = self.load._board, self.rng.choice(self.load.seats)
        body = self.load.wishes.body(self.rng, seat, board.now_ms)
        made = Made(seat, board.key(), body)
        board.asked(made)
        return self._call("create", seat, key=made.key, asked=body)

    def _replay(self) -> Call | None:
        made = self.load._board.pick_made(self.rng)
        if made is None:
            return None
        return self._call("create", made.seat, key=made.key, asked=made.body)

    def _twist(self) -> Call | None:
        # Only keys whose first body is known to have arrived: else either might come first.
        made = self.load._board.pick_made(self.rng, known=True)
        if made is None:
            return None
        return self._call("create", made.seat, key=made.key, asked=twisted(made.body))

    def _on_target(self, op: str) -> Call | None:
        found = self.load._board.pick_target(self.rng, ending=op != "get")
        if found is None:
            return None
        target, seat = found
        return self._call(op, seat, target=target, asked={"tenantId": seat.tenant})

    def _stranger(self) -> Call | None:
        """A get by somebody of another tenant: there is nothing to see."""
        found = self.load._board.pick_target(self.rng, ending=False)
        others = [s for s in self.load.seats if found and s.tenant != found[1].tenant]
        if found is None or not others:
            return None
        seat = self.rng.choice(others)
        return self._call("get", seat, target=found[0], asked={"tenantId": seat.tenant})

    def _list(self) -> Call:
        seat = self.rng.choice(self.load.seats)
        asked: dict[str, Any] = {
            "tenantId": seat.tenant,
            "scope": self.rng.choice(["all", "all", "mine"]),
            "limit": self.rng.choice(PAGE_LIMITS),
        }
        if self.rng.random() < 0.2:
            asked["state"] = self.rng.choice(["placed", "active", "pending", "released"])
        return self._call("list", seat, asked=asked)

    def _preview(self) -> Call:
        seat = self.rng.choice(self.load.seats)
        body = self.load.wishes.body(self.rng, seat, self.load._board.now_ms)
        return self._call("preview", seat, asked=body)

    def _quotas(self) -> Call:
        seat = self.rng.choice(self.load.seats)
        return self._call("quotas", seat, asked={"tenantId": seat.tenant})

    # --- the wire -------------------------------------------------------------------------------

    def _send(self, call: Call) -> None:
        """Send it once; what must be known and is not goes to the end of the line."""
        load = self.load
        seat = next(each for each in load.seats if each.name == call.caller)
        call = replace(call, url=load.urls[self.at % len(load.urls)])
        done = perform(self.http, load.recorder, call, token=seat.token)
        load._board.learn(done, seat)
        if done.acknowledged or done.refused:
            return
        if call.op in {"create", "release", "cancel"}:
            self.unsettled.append(call)
        if done.unknown:
            self.at += 1
        load._stopping.wait(retry_after(done))


def perform(http: httpx2.Client, recorder: Recorder, call: Call, *, token: str) -> Operation:
    """Send one request and record it from before it is sent until its answer was read."""
    method, path, query, body = _request(call)
    number = recorder.invoke(call)
    begun = recorder.now()
    try:
        got = http.request(
            method,
            f"{call.url}/api/v1{path}",
            params=query,
            json=body,
            headers={"Authorization": f"Bearer {token}"},
        )
        answer = Answer(got.status_code, _json(got), _headers(got))
    except httpx2.HTTPError as error:
        recorder.lost(number, type(error).__name__)
        return Operation(number, call, begun, error=type(error).__name__)
    recorder.answered(number, answer)
    return Operation(number, call, begun, recorder.now(), answer)


def retry_after(done: Operation) -> float:
    """How long to wait after an answer that asks for it, and a moment after a lost one."""
    if done.answer is None:
        return 0.1
    asked = done.answer.headers.get("retry-after", "0.1")
    return min(float(asked) if asked.replace(".", "", 1).isdigit() else 0.1, RETRY_AFTER_MAX)


_Request = tuple[str, str, dict[str, Any] | None, dict[str, Any] | None]


def _request(call: Call) -> _Request:
    """Method, path, query and body of a call."""
    asked = dict(call.asked)
    match call.op:
        case "create":
            return "POST", "/reservations", None, {**asked, "idempotencyKey": call.key}
        case "get":
            return "GET", f"/reservations/{call.target}", asked, None
        case "list":
            return "GET", "/reservations", asked, None
        case "release" | "cancel":
            return "POST", f"/reservations/{call.target}/{call.op}", None, asked
        case "preview":
            return "POST", "/capacity/preview", None, asked
        case "quotas":
            return "GET", "/quotas", asked, None
        case _:
            raise ValueError(f"no client does {call.op!r}")


_KEPT_HEADERS = ("x-request-id", "retry-after", "etag", "content-type")


def _headers(got: httpx2.Response) -> dict[str, str]:
    return {name: got.headers[name] for name in _KEPT_HEADERS if name in got.headers}


def _json(got: httpx2.Response) -> Any:
    """The body; one that is no JSON is kept as text, for the checker to see."""
    try:
        return got.json()
    except ValueError:
        return got.text[:500]
