"""A gateway in this process, agents that talk to it, and what the control plane does meanwhile.

The gateway is the real application with its real threads and connections; only the network between
it and an agent is left out. Time of the database is simulated; the gateway's own monotonic clock is
a hand on the test, too.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import httpx2
from asgiref.sync import sync_to_async
from django.db import connection

from nodes import enrollment
from nodes.gateway.app import Application
from nodes.gateway.service import Gateway
from nodes.protocol import messages, signing
from nodes.protocol.messages import Hello
from nodes.protocol.signing import NodeKey, Purpose

T = TypeVar("T")
URL = "http://gateway.test"


@dataclass
class Monotonic:
    """A monotonic clock that only moves when told."""

    seconds: float = 1_000.0

    def __call__(self) -> float:
        return self.seconds


@dataclass
class Bench:
    """A running gateway and a client for it."""

    application: Application
    client: httpx2.AsyncClient
    monotonic: Monotonic
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def gateway(self) -> Gateway:
        assert self.application.gateway is not None
        return self.application.gateway

    def transport(self) -> httpx2.AsyncBaseTransport:
        """A network of its own for one agent."""
        return httpx2.ASGITransport(app=self.application)

    async def call(
        self, method: str, path: str, body: Any = None, *, token: str = ""
    ) -> httpx2.Response:
        """One call, as an agent makes it."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        content = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            content = body if isinstance(body, str | bytes) else messages.canonical(body)
        return await self.client.request(
            method, URL + messages.PREFIX + path, content=content, headers=headers
        )

    async def enroll(self, node_id: str) -> NodeKey:
        """A fresh key, enrolled with a fresh token."""
        key = NodeKey.generate()
        token = (await sync(enrollment.create, node_id=node_id)).token
        body = {"token": token, "publicKey": signing.encode(key.public_key)}
        answer = await self.call("POST", "/enroll", body)
        assert answer.status_code == 200, answer.text
        return key

    async def challenge(self, node_id: str) -> str:
        answer = await self.call("POST", "/challenge", {"nodeId": node_id})
        return str(answer.json()["challenge"])

    async def hello(self, node_id: str, key: NodeKey, **about: Any) -> httpx2.Response:
        """The whole greeting; ``about`` replaces or adds fields of the hello."""
        fields = {"challenge": about.pop("challenge", "") or await self.challenge(node_id)}
        said = Hello(**{"node_id": node_id, "kid": key.kid, **fields, **about})
        return await self.say(key, messages.canonical(said.to_wire()))

    async def say(self, key: NodeKey, text: str) -> httpx2.Response:
        """A hello of exactly this text."""
        signature = key.sign(Purpose.HELLO, text)
        return await self.call("POST", "/hello", {"hello": text, "signature": signature})

    async def session(self, node_id: str, key: NodeKey | None = None) -> str:
        """A session's token."""
        key = key or await self.enroll(node_id)
        answer = await self.hello(node_id, key)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["sessionToken"])


def entry(node_id: str, seq: int, kind: str, *, key: NodeKey | None = None, **body: Any) -> Any:
    """A journal entry as it is sent."""
    text = messages.canonical({"nodeId": node_id, "seq": seq, "kind": kind, **body})
    if key is None:
        return {"seq": seq, "kind": kind, "body": text}
    signature = key.sign(Purpose.REPORT, text)
    return {"seq": seq, "kind": kind, "body": text, "signature": signature, "kid": key.kid}


@contextlib.asynccontextmanager
async def bench() -> AsyncIterator[Bench]:
    """A gateway that is started, and stopped in the end."""
    monotonic = Monotonic()
    application = Application(lambda: Gateway(monotonic=monotonic))
    await application.start()
    transport = httpx2.ASGITransport(app=application)
    try:
        async with httpx2.AsyncClient(transport=transport, trust_env=False) as client:
            yield Bench(application, client, monotonic)
    finally:
        await application.stop()


def run(scenario: Callable[[Bench], Awaitable[T]]) -> T:
    """Play a scenario against a gateway of its own, to its end."""

    async def play() -> T:
        async with asyncio.timeout(120), bench() as made:
            return await scenario(made)

    return asyncio.run(play())


async def sync(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """What the control plane does, in a thread with a connection that is closed behind it."""

    def call() -> T:
        try:
            return function(*args, **kwargs)
        finally:
            connection.close()

    return await sync_to_async(call, thread_sensitive=False)()


async def until(condition: Callable[[], Any], *, seconds: float = 60.0) -> None:
    """Wait for something to become true, looking often; the condition may use the database."""
    async with asyncio.timeout(seconds):
        while not await sync(condition):
            await asyncio.sleep(0.02)
