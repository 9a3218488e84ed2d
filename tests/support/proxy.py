"""A way to PostgreSQL that a test can cut: a socket that forwards to the real server.

Cutting it drops every connection and refuses new ones, as a server that is gone does, while the
test's own connection and everybody else's stay.
"""

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

from psycopg.conninfo import conninfo_to_dict, make_conninfo

PORT = 5432
_NOISE = b"\xff" * 64  # no message of the protocol begins so


class Proxy:
    """Runs in a thread of its own."""

    def __init__(self, target: str, directory: Path) -> None:
        parts = conninfo_to_dict(target)
        self.url = make_conninfo(target, host=str(directory), port=PORT)
        self._host, self._port = str(parts["host"]), int(parts.get("port") or PORT)
        self._path = directory / f".s.PGSQL.{PORT}"
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._behind = b""
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def restore(self) -> None:
        """Let connections through again."""
        self._run(self._start())

    def cut(self) -> None:
        """Drop every connection and refuse new ones."""
        self._run(self._stop())

    def garble(self) -> None:
        """From now on each answer ends in noise."""
        self._behind = _NOISE

    def close(self) -> None:
        """Stop for good."""
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=10)

    async def _start(self) -> None:
        self._server = await asyncio.start_unix_server(self._accept, self._path)

    async def _stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        self._path.unlink(missing_ok=True)
        for writer in list(self._open):
            writer.transport.abort()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # From here on it can be cut, also while it has no other end yet.
        self._open.add(writer)
        joining = asyncio.current_task()
        assert joining is not None
        self._remember(joining)
        with contextlib.suppress(asyncio.CancelledError):
            await self._join(reader, writer)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = f"{self._host}/.s.PGSQL.{self._port}"
        there, back = await (
            asyncio.open_unix_connection(target)
            if self._host.startswith("/")
            else asyncio.open_connection(self._host, self._port)
        )
        self._open.add(back)
        for source, sink in ((reader, back), (there, writer)):
            self._remember(asyncio.create_task(self._pipe(source, sink, answers=sink is writer)))

    def _remember(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _pipe(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, answers: bool
    ) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError):
            while data := await source.read(65_536):
                sink.write(data + self._behind if answers else data)
                await sink.drain()
        sink.close()
        self._open.discard(sink)


@contextlib.contextmanager
def proxied(target: str, directory: Path) -> Iterator[Proxy]:
    """A proxy that lets connections through."""
    proxy = Proxy(target, directory)
    proxy.restore()
    try:
        yield proxy
    finally:
        proxy.close()
