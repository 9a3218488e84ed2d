"""The network between agents and gateways: messages that may be lost, late, twice or out of order.

A call is a request on its way, then at a gateway, then an answer on its way. The scheduler decides
which of all messages arrives next. A caller that hears nothing times out in simulated time.
"""

import asyncio
import itertools
from dataclasses import dataclass, field
from typing import Any

import httpx2


@dataclass(slots=True)
class Call:
    """One request of an agent to a gateway, and its answer on the way back."""

    number: int
    agent: str
    gateway: str
    request: httpx2.Request
    content: bytes
    future: "asyncio.Future[httpx2.Response]"
    answer: httpx2.Response | Exception | None = None

    @property
    def path(self) -> str:
        """What is asked for."""
        return self.request.url.path.rpartition("/")[2]


@dataclass(slots=True)
class Network:
    """All messages on their way."""

    up: set[str] = field(default_factory=set)  # gateways that listen
    silent: set[str] = field(default_factory=set)  # agents that nobody hears
    requests: list[Call] = field(default_factory=list)
    answers: list[Call] = field(default_factory=list)
    at_gateway: dict[str, list[Call]] = field(default_factory=dict)
    _numbers: Any = field(default_factory=lambda: itertools.count(1))

    def send(self, agent: str, request: httpx2.Request, content: bytes) -> Call:
        """A request leaves. Raises: httpx2.ConnectError."""
        gateway = request.url.host
        if gateway not in self.up or agent in self.silent:
            raise httpx2.ConnectError("nobody listens", request=request)
        future = asyncio.get_running_loop().create_future()
        call = Call(next(self._numbers), agent, gateway, request, content, future)
        self.requests.append(call)
        return call

    def answered(self, call: Call, answer: httpx2.Response | Exception) -> None:
        """An answer leaves its gateway."""
        here = self.at_gateway.get(call.gateway, [])
        if call in here:
            here.remove(call)
        call.answer = answer
        self.answers.append(call)

    def gateway_died(self, gateway: str) -> None:
        """Whoever waits for it sees the connection break, some time."""
        self.up.discard(gateway)
        broken = [call for call in self.requests if call.gateway == gateway]
        self.requests = [call for call in self.requests if call.gateway != gateway]
        for call in broken + self.at_gateway.pop(gateway, []):
            call.answer = httpx2.ReadError("the gateway went away", request=call.request)
            self.answers.append(call)

    def deliver(self, call: Call) -> None:
        """The answer arrives; one that came twice, too late or to a dead agent is ignored."""
        self.answers.remove(call)
        nobody_waits = call.future.done() or call.future.get_loop().is_closed()
        if nobody_waits or call.agent in self.silent:
            return
        if isinstance(call.answer, httpx2.Response):
            call.future.set_result(call.answer)
        else:
            call.future.set_exception(call.answer or RuntimeError("no answer"))


class Transport(httpx2.AsyncBaseTransport):
    """One agent's way into the network."""

    def __init__(self, network: Network, agent: str) -> None:
        self._network = network
        self._agent = agent

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send, and wait for the answer as long as the caller wants to."""
        content = await request.aread()
        call = self._network.send(self._agent, request, content)
        seconds = request.extensions["timeout"]["read"]
        try:
            async with asyncio.timeout(seconds):
                return await call.future
        except TimeoutError as error:
            raise httpx2.ReadTimeout("no answer in time", request=request) from error


async def serve(application: Any, network: Network, call: Call) -> None:
    """Have the gateway's application answer a call."""
    url = call.request.url
    scope = {
        "type": "http",
        "method": call.request.method,
        "path": url.path,
        "query_string": url.query,
        "headers": [(name.lower(), value) for name, value in call.request.headers.raw],
    }
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": call.content, "more_body": False}

    async def send(event: dict[str, Any]) -> None:
        sent.append(event)

    await application(scope, receive, send)
    start, *parts = sent
    response = httpx2.Response(
        start["status"],
        headers=start["headers"],
        content=b"".join(part.get("body", b"") for part in parts),
        request=call.request,
    )
    network.answered(call, response)
