"""What a simulated node does wrong, on request (N3).

A fault is switched on and off while the fleet runs, through ``Board.set`` or a JSON file such as
``{"node_01…": {"silent": true}, "*": {"bindDelaySeconds": 2}}``; ``*`` is everybody else. The agent
under it is the real one: faults sit in its transport, its holds and its key.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import httpx2
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from bettercompute.agent.atoms import Atom
from bettercompute.agent.bind import BindFailed, Holds
from bettercompute.agent.cdi import Bound
from nodes.protocol import messages
from nodes.protocol.messages import Assignment
from nodes.protocol.signing import NodeKey, Purpose

log = logging.getLogger(__name__)

EVERYBODY = "*"
RELOAD_SECONDS = 1.0


class Faults(BaseModel):
    """What is wrong with one node now; by default nothing."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )

    silent: bool = False  # nothing reaches a gateway, nor comes back
    bind_delay_seconds: float = Field(default=0, ge=0)
    fail_bind: str = ""  # why binding fails
    lose_binding: bool = False  # what is held when this is switched on is gone
    duplicate_reports: bool = False  # every report is sent twice
    old_epoch: bool = False  # reports come under the token of a superseded session
    clock_offset_seconds: float = 0
    unused: bool = False  # no workload ever uses what it holds
    forge_reports: bool = False  # reports are signed with somebody else's key


Current = Callable[[], Faults]
_FILE = TypeAdapter(dict[str, Faults])


class Board:
    """Who has which faults now."""

    def __init__(self, faults: Mapping[str, Faults] | None = None) -> None:
        self._faults = dict(faults or {})
        self._listeners: list[Callable[[], None]] = []

    def of(self, node_id: str) -> Faults:
        """The faults of this node."""
        found = self._faults.get(node_id) or self._faults.get(EVERYBODY)
        return found or Faults()

    def set(self, node_id: str, faults: Faults) -> None:
        """Switch the faults of one node, or of everybody who has none of their own."""
        self._faults[node_id] = faults
        self._tell()

    def replace(self, faults: Mapping[str, Faults]) -> None:
        """Switch everybody's."""
        self._faults = dict(faults)
        self._tell()

    def listen(self, listener: Callable[[], None]) -> None:
        """Call this after every switch."""
        self._listeners.append(listener)

    async def follow(self, path: Path) -> None:
        """Keep to what the file says, until cancelled; a file that makes no sense is ignored."""
        seen: str | None = None
        while True:
            text = _text(path)
            if text != seen:
                seen = text
                try:
                    self.replace(_FILE.validate_json(text or "{}"))
                except ValidationError as error:
                    log.warning("%s is ignored: %s", path, error)
            await asyncio.sleep(RELOAD_SECONDS)

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()


class FaultyTransport(httpx2.AsyncBaseTransport):
    """A node's network."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, faults: Current) -> None:
        self._inner = inner
        self._faults = faults
        self._first_token: str | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Pass the request on, as far as the faults let it."""
        self._refuse_if_silent(request)
        if request.url.path == f"{messages.PREFIX}/reports":
            response = await self._report(request)
        else:
            response = await self._inner.handle_async_request(request)
        if self._faults().silent:
            await response.aclose()
            self._refuse_if_silent(request)
        return response

    async def aclose(self) -> None:
        """Close what is below."""
        await self._inner.aclose()

    async def _report(self, request: httpx2.Request) -> httpx2.Response:
        token = request.headers.get("Authorization")
        self._first_token = self._first_token or token
        if self._faults().old_epoch and self._first_token is not None:
            request.headers["Authorization"] = self._first_token
        if self._faults().duplicate_reports:
            first = await self._inner.handle_async_request(request)
            await first.aread()
            await first.aclose()
        return await self._inner.handle_async_request(request)

    def _refuse_if_silent(self, request: httpx2.Request) -> None:
        if self._faults().silent:
            raise httpx2.ConnectError("this simulated node is silent", request=request)


class FaultyHolds:
    """A node's disk and driver."""

    def __init__(self, inner: Holds, faults: Current) -> None:
        self._inner = inner
        self._faults = faults
        self._lost: set[str] = set()
        self._losing = False

    def read(self) -> Mapping[str, Assignment]:
        """What is held and not lost."""
        held = self._inner.read()
        if self._faults().lose_binding and not self._losing:
            self._lost |= held.keys()
        self._losing = self._faults().lose_binding
        return {key: each for key, each in held.items() if key not in self._lost}

    async def bind(self, assignment: Assignment, atoms: Sequence[Atom]) -> Bound:
        """Hold: late, or not at all."""
        await asyncio.sleep(self._faults().bind_delay_seconds)
        if self._faults().fail_bind:
            raise BindFailed(self._faults().fail_bind)
        bound = await self._inner.bind(assignment, atoms)
        self._lost.discard(assignment.allocation_id)
        return bound

    async def unbind(self, allocation_id: str) -> None:
        """Let go."""
        await self._inner.unbind(allocation_id)
        self._lost.discard(allocation_id)


class SimulatedUse:
    """Workloads that begin as soon as their devices are held, unless nobody comes."""

    def __init__(self, faults: Current) -> None:
        self._faults = faults

    def of(self, held: Mapping[str, Assignment]) -> Collection[str]:
        """All of them, or none."""
        return () if self._faults().unused else held.keys()


class FaultyKey(NodeKey):
    """A node's key; a forger says it is this key and uses another."""

    def __init__(self, key: NodeKey, faults: Current) -> None:
        super().__init__(key._private)
        self._faults = faults
        self._stranger = NodeKey.generate()

    def sign(self, purpose: Purpose, text: str) -> str:
        """Sign, or forge."""
        if purpose is Purpose.REPORT and self._faults().forge_reports:
            return self._stranger.sign(purpose, text)
        return super().sign(purpose, text)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
