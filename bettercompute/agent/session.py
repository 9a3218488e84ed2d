"""An agent's conversation with the control plane: who it is, proven, and one live session (N5).

The session is said hello for when it is first needed and again whenever a gateway no longer knows
it. Losing it means nothing to the holds on this node (N15).
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pydantic import ValidationError

from bettercompute.agent import link as links
from bettercompute.agent.link import Link
from nodes.protocol import messages, signing
from nodes.protocol.messages import (
    ChallengeAnswer,
    DesiredAnswer,
    EnrollAnswer,
    Hello,
    HelloAnswer,
    ReportEntry,
    ReportsAnswer,
)
from nodes.protocol.signing import NodeKey, Purpose

LONG_POLL_SECONDS = 25
LONG_POLL_SLACK_SECONDS = 10.0  # how much later than asked a long poll may answer


@dataclass(frozen=True, slots=True)
class Identity:
    """Which node this is, and the key that proves it."""

    node_id: str
    key: NodeKey


@dataclass(frozen=True, slots=True)
class About:
    """What a hello tells besides."""

    boot_id: str = ""
    agent_version: str = ""
    capabilities: tuple[str, ...] = ()


M = TypeVar("M", bound=messages.Message)
Resumed = Callable[[int], None]


async def enroll(link: Link, *, token: str, key: NodeKey) -> EnrollAnswer:
    """Trade a one-time token for an identity; repeating it with the same key is harmless.

    Raises: what ``Link.call`` raises.
    """
    request = messages.EnrollRequest(token=token, public_key=signing.encode(key.public_key))
    answer = await link.call(
        "POST", f"{messages.PREFIX}/enroll", body=messages.canonical(request.to_wire())
    )
    return EnrollAnswer.from_json(answer)


class Session:
    """The live session of one agent. Its calls raise what ``Link.call`` raises."""

    def __init__(
        self,
        link: Link,
        identity: Identity,
        about: About,
        *,
        clock_offset_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        self.link = link
        self.identity = identity
        self._about = about
        self.resumed: Resumed = lambda applied_seq: None
        self._clock_offset_ms = clock_offset_ms
        self._hello: HelloAnswer | None = None
        self._epoch = 0
        self._greeting = asyncio.Lock()
        self._contact = 0.0

    @property
    def epoch(self) -> int:
        """The epoch of the last session; 0 before the first."""
        return self._epoch

    @property
    def live(self) -> bool:
        """Whether a session is believed to be good."""
        return self._hello is not None

    def forget(self) -> None:
        """Say hello anew at the next call."""
        self._hello = None

    def silence(self) -> float:
        """Seconds since a gateway last answered."""
        return time.monotonic() - self._contact

    async def ensure(self) -> HelloAnswer:
        """The live session; says hello if there is none."""
        async with self._greeting:
            if self._hello is None:
                self._hello = await self._greet()
                self._epoch = self._hello.epoch
                self.resumed(self._hello.applied_seq)
            return self._hello

    async def desired(self, generation: int, *, wait: int = LONG_POLL_SECONDS) -> DesiredAnswer:
        """The desired state, at once if it is not at ``generation``, else when it changes."""
        answer = await self._call(
            "GET",
            f"/desired?generation={generation}&wait={wait}",
            seconds=wait + LONG_POLL_SLACK_SECONDS,
        )
        return _read(DesiredAnswer, answer)

    async def report(self, entries: Sequence[ReportEntry]) -> ReportsAnswer:
        """Hand over journal entries."""
        body = messages.canonical({"entries": [entry.to_wire() for entry in entries]})
        return _read(ReportsAnswer, await self._call("POST", "/reports", body=body))

    async def heartbeat(self) -> None:
        """Only say that this agent lives."""
        await self._call("POST", "/heartbeat", body="{}")

    async def _call(
        self,
        method: str,
        path: str,
        *,
        body: str | None = None,
        seconds: float = links.CALL_SECONDS,
    ) -> bytes:
        hello = await self.ensure()
        try:
            answer = await self.link.call(
                method,
                messages.PREFIX + path,
                body=body,
                token=hello.session_token,
                seconds=seconds,
            )
        except (links.SessionEnded, links.Superseded):
            if self._hello is not hello:
                # Another task has greeted since; this answer was about the session before.
                raise links.SessionEnded("an earlier session of ours ended") from None
            self._hello = None
            raise
        self._contact = time.monotonic()
        return answer

    async def _greet(self) -> HelloAnswer:
        path = f"{messages.PREFIX}/challenge"
        asked = messages.canonical({"nodeId": self.identity.node_id})
        challenge = _read(ChallengeAnswer, await self.link.call("POST", path, body=asked))
        key = self.identity.key
        hello = Hello(
            node_id=self.identity.node_id,
            kid=key.kid,
            challenge=challenge.challenge,
            boot_id=self._about.boot_id,
            agent_version=self._about.agent_version,
            capabilities=list(self._about.capabilities),
            last_epoch=self._epoch,
            clock_ms=_wall_clock_ms() + self._clock_offset_ms(),
        )
        text = messages.canonical(hello.to_wire())
        body = messages.canonical({"hello": text, "signature": key.sign(Purpose.HELLO, text)})
        answer = await self.link.call("POST", f"{messages.PREFIX}/hello", body=body)
        self._contact = time.monotonic()
        return _read(HelloAnswer, answer)


def _wall_clock_ms() -> int:
    # For people who look for a wrong clock; nothing is judged by it (C8).  check-sql-now: allow
    return time.time_ns() // 1_000_000


def _read(model: type[M], answer: bytes) -> M:
    try:
        return model.from_json(answer)
    except ValidationError as error:
        # Something between us and the gateway answers: a captive portal, a proxy's page.
        raise links.Unreachable(f"not an answer of a gateway: {error.errors()[:1]}") from error
