"""A real HTTP server on 127.0.0.1 that answers what a test says, or breaks as it says."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from bettercompute.client.calls import Answer

#: Instead of an answer: the connection is closed without one.
DROP = Answer(0, {}, b"")


@dataclass(frozen=True)
class Received:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class WireServer:
    """What it was asked, and what it answers."""

    answer: Callable[[Received], Answer]
    url: str = ""
    received: list[Received] = field(default_factory=list)


@contextlib.contextmanager
def serve(answer: Callable[[Received], Answer]) -> Iterator[WireServer]:
    """A server that runs as long as the block."""
    running = WireServer(answer)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def do_PATCH(self) -> None:
            self._answer()

        def do_PUT(self) -> None:
            self._answer()

        def do_DELETE(self) -> None:
            self._answer()

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            received = Received(
                self.command, self.path, headers, json.loads(body) if body else None
            )
            running.received.append(received)
            answered = running.answer(received)
            if answered is DROP:
                self.close_connection = True
                return
            self.send_response(answered.status)
            for name, value in answered.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answered.body)))
            self.end_headers()
            self.wfile.write(answered.body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    running.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield running
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
