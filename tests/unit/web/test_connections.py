"""Connections that bring no request end."""

import asyncio
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from gunicorn.asgi.protocol import ASGIProtocol
from gunicorn.config import Config
from gunicorn.workers import gasgi

from bettercompute import gunicorn_conf
from bettercompute.web.connections import Connection

pytestmark = pytest.mark.rule("A11")


async def application(_: Any, __: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def answers(protocol: type[ASGIProtocol], *sent: bytes) -> list[bytes]:
    """What is read after each part sent, and at the end: b"" where the server has closed."""
    cfg = Config()
    cfg.settings["keepalive"].value = 0.2
    loop = asyncio.get_running_loop()
    log = mock.Mock(access_log_enabled=False)
    worker = SimpleNamespace(cfg=cfg, log=log, loop=loop, asgi=application, alive=True)
    worker.nr_conns, worker.nr, worker.max_requests = 0, 0, 1_000
    server = await loop.create_server(lambda: protocol(worker), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    read = []
    try:
        for part in sent:
            writer.write(part)
            read.append(await asyncio.wait_for(reader.read(9), 10) if part[-4:] == END else b"")
        read.append(await asyncio.wait_for(reader.read(), 10))
        return read
    finally:
        writer.close()
        server.close()


END = b"\r\n\r\n"


@pytest.mark.parametrize("begun", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\n"])
def test_a_connection_without_a_whole_request_is_closed(begun: bytes) -> None:
    assert asyncio.run(answers(Connection, begun))[-1] == b""


def test_a_request_that_comes_in_time_is_answered() -> None:
    assert asyncio.run(answers(Connection, b"GET / HTTP/1.1\r\nHost: x" + END))[0] == b"HTTP/1.1 "


def test_every_worker_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gasgi, "ASGIProtocol", ASGIProtocol)
    monkeypatch.setattr("bettercompute.web.lifetime._watched", [])
    gunicorn_conf.post_worker_init(SimpleNamespace(alive=True))
    assert gasgi.ASGIProtocol is Connection
