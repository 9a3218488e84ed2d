"""A receiver of webhooks: a real HTTP server that keeps each message and answers what it is told.

It verifies like anybody's would, with the public ``standardwebhooks`` package.
"""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Message:
    """One request as it arrived."""

    headers: Mapping[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def event(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


@dataclass(frozen=True)
class Reply:
    """What it answers."""

    status: int = 200
    body: bytes = b"thanks"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Receiver:
    """What it got; ``reply`` says what comes next."""

    url: str
    reply: Callable[[Message], Reply] = lambda message: Reply()
    messages: list[Message] = field(default_factory=list)
    connections: int = 0

    def answers(self, status: int, body: bytes = b"", **headers: str) -> None:
        """The same to everything from now on."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.reply = lambda message: Reply(status, body, named)

    @property
    def ids(self) -> list[str]:
        return [message.id for message in self.messages]


@contextlib.contextmanager
def receiver() -> Iterator[Receiver]:
    """One that runs as long as the block."""
    running = Receiver("")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            running.connections += 1
            super().setup()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            names = {name.lower(): value for name, value in self.headers.items()}
            message = Message(names, body)
            running.messages.append(message)
            reply = running.reply(message)
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, *arguments: object) -> None:
            """Nothing: what a test wants to know is in ``messages``."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    running.url = f"http://127.0.0.1:{server.server_port}/hook"
    try:
        yield running
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
