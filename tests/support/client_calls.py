"""Every call of the Python client, made once against a server that knows nothing.

Which calls there are is read from the client, so a new one is made as well; what they need is
filled in by the names of their parameters.
"""

import asyncio
import functools
import inspect
import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx2

from bettercompute.client import asynchronous, blocking, failures
from bettercompute.client.asynchronous import AsyncClient
from bettercompute.client.blocking import Client
from bettercompute.wire.reservations import Reservation
from tests.support import answers

URL = "http://compute.example"
TOKEN = "bct_secret"

#: What a call needs beside an id, by the name of the parameter.
SAMPLES: dict[str, Any] = {
    "names": ["bob"],
    "duration": "1h",
    "start": 0,
    "start_ms": 0,
    "end_ms": 1,
    "occurrence": 0,
    "seconds": 1.0,
    "path": "/healthz",
    "url": "https://hooks.example.com/",
    "reservation": Reservation.model_validate_json(
        json.dumps(answers.reservation("pending", operation="waiting"))
    ),
}

#: Calls that take one of several, or that go elsewhere by what is given.
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "maintenance.announce": [{"pool_id": "x"}, {"node_id": "x"}],
    "tenant_id": [],  # asks only where no tenant is named
}

Request = tuple[str, str, str, Any]  # method, path, query, body


def pairs() -> Iterator[tuple[str, Callable[..., Any], Callable[..., Any]]]:
    """Every call of both clients, side by side."""
    other = dict(_methods(AsyncClient(URL, TOKEN)))
    for name, method in _methods(Client(URL, TOKEN)):
        yield name, method, other[name]


@functools.cache
def requests() -> dict[str, list[Request]]:
    """What the blocking client asks for in each call."""
    sent: list[Request] = []
    found = {}
    with Client(URL, TOKEN, "ten_x", transport_=_recorder(sent)) as client:
        client.api.jitter = lambda low, high: 0.0
        for name, method in _methods(client):
            for arguments in _arguments(name, method):
                _blocking(method, arguments)
            found[name] = sent[:]
            sent.clear()
    return found


@functools.cache
def requests_async() -> dict[str, list[Request]]:
    """The same of the asynchronous one."""
    sent: list[Request] = []
    found = {}

    async def run() -> None:
        async with AsyncClient(URL, TOKEN, "ten_x", transport_=_recorder(sent)) as client:
            client.api.jitter = lambda low, high: 0.0
            for name, method in _methods(client):
                for arguments in _arguments(name, method):
                    await _asynchronous(method, arguments)
                found[name] = sent[:]
                sent.clear()

    asyncio.run(run())
    return found


def _methods(client: Client | AsyncClient) -> Iterator[tuple[str, Callable[..., Any]]]:
    """What a client offers: its own calls, and those of its groups."""
    for attribute, value in vars(client).items():
        if isinstance(value, blocking.Group | asynchronous.Group):
            for name in vars(type(value)):
                if not name.startswith("_"):
                    yield f"{attribute}.{name}", getattr(value, name)
        elif callable(value) and not attribute.startswith("_"):
            yield attribute, value


def _arguments(name: str, method: Callable[..., Any]) -> list[dict[str, Any]]:
    parameters = inspect.signature(method).parameters.values()
    needed = {
        each.name: SAMPLES.get(each.name, "x")
        for each in parameters
        if each.default is each.empty and each.kind is not each.VAR_KEYWORD
    }
    return [{**needed, **more} for more in VARIANTS.get(name, [{}])]


def _blocking(method: Callable[..., Any], arguments: dict[str, Any]) -> None:
    try:
        done = method(**arguments)
        if inspect.isgenerator(done):
            list(done)
    except failures.ClientError:
        pass  # what it is answered does not matter here


async def _asynchronous(method: Callable[..., Any], arguments: dict[str, Any]) -> None:
    try:
        done = method(**arguments)
        if inspect.isasyncgen(done):
            async for _ in done:
                pass
        else:
            await done
    except failures.ClientError:
        pass


def _recorder(sent: list[Request]) -> httpx2.MockTransport:
    def answer(request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content) if request.content else None
        sent.append((request.method, request.url.path, request.url.query.decode(), body))
        return httpx2.Response(404, json=answers.problem(404, "NOT_FOUND"))

    return httpx2.MockTransport(answer)
