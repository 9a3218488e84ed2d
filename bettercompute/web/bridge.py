"""Django's WSGI stack behind ASGI: one hop into a thread a request, and one back.

The body has been read by then and the answer is collected, so a slow client never holds a thread
nor the database connection that belongs to it. Bodies are bounded (256 KiB), answers are pages,
JSON and static files; what streams without end is native ASGI and does not come here.
"""

import asyncio
import io
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import quote, unquote_to_bytes

from django.utils.http import parse_header_parameters

from bettercompute.web import serving

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]
Environ = dict[str, Any]


class WsgiApplication(Protocol):
    """What get_wsgi_application answers."""

    def __call__(
        self, environ: Environ, start_response: Callable[..., Any], /
    ) -> Iterable[bytes]: ...


@dataclass(slots=True)
class Answer:
    """A whole HTTP answer."""

    status: int = 500
    headers: Headers = field(default_factory=list)
    body: bytes = b""

    def header(self, name: bytes) -> bytes | None:
        """The first value of a header, by its lower-case name."""
        return next((value for known, value in self.headers if known == name), None)

    def without(self, *names: bytes) -> Headers:
        """The headers but these."""
        return [(name, value) for name, value in self.headers if name not in names]


@dataclass(frozen=True, slots=True)
class WsgiBridge:
    """Runs a WSGI application in the threads of an executor."""

    application: WsgiApplication
    executor: Executor

    async def call(self, scope: Scope, body: bytes) -> Answer:
        """One request, from beginning to end."""
        environ = environ_of(scope, body)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.executor, self._run, environ)

    def _run(self, environ: Environ) -> Answer:
        answer = Answer()

        def start_response(status: str, headers: list[tuple[str, str]], _: Any = None) -> None:
            answer.status = int(status[:3])
            answer.headers = [
                (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers
            ]

        chunks = self.application(environ, start_response)
        try:
            body = b"".join(chunks)
            answer.body = b"" if environ["REQUEST_METHOD"] == "HEAD" else body
        finally:
            # Django ends the request here: signals, connections past their age.
            close = getattr(chunks, "close", None)
            if close is not None:
                close()
        return answer


async def send(answer: Answer, to: Send) -> None:
    headers = answer.headers
    has_length = answer.header(b"content-length") is not None
    if answer.status not in {204, 304} and not has_length:
        headers = [*headers, (b"content-length", str(len(answer.body)).encode())]
    await to({"type": "http.response.start", "status": answer.status, "headers": headers})
    await to({"type": "http.response.body", "body": answer.body})


#: What a proxy's client puts before the path (absolute-form, RFC 9112); Host says it too.
_ORIGIN = re.compile(r"\Ahttps?://[^/]*", re.IGNORECASE)


def below_host(target: str) -> str:
    """The path of what a request line asks for."""
    return _ORIGIN.sub("", target, count=1) or "/"


def environ_of(scope: Scope, body: bytes) -> Environ:
    """The environ of PEP 3333, whatever bytes the request line has."""
    root = scope.get("root_path", "")
    raw_path = scope.get("raw_path") or scope["path"].encode("utf-8", "surrogateescape")
    target = bytes(raw_path).partition(b"?")[0].decode("latin-1")
    path = unquote_to_bytes(below_host(target).encode("latin-1")).decode("latin-1")
    # PEP 3333 wants text; percent-encoding what is not ASCII says the same.
    query = quote(scope.get("query_string", b""), safe="!#$%&'()*+,/:;=?@[]~-._")
    server = scope.get("server") or ("localhost", 80)
    client = scope.get("client") or ("", 0)
    environ: Environ = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": root,
        "PATH_INFO": path.removeprefix(root),
        "QUERY_STRING": query,
        "SERVER_PROTOCOL": f"HTTP/{scope.get('http_version', '1.1')}",
        "SERVER_NAME": server[0],
        "SERVER_PORT": str(server[1] or 0),
        "REMOTE_ADDR": client[0],
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope.get("scheme", "http"),
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
        serving.ENVIRON: scope.get(serving.ENVIRON),
    }
    _add_headers(environ, scope["headers"])
    environ["CONTENT_LENGTH"] = str(len(body)) if body else environ.get("CONTENT_LENGTH", "")
    return environ


def _add_headers(environ: Environ, headers: Iterable[tuple[bytes, bytes]]) -> None:
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        if "_" in name:
            continue  # X_Request_Id would pass for X-Request-Id
        key = name.upper().replace("-", "_")
        if key not in {"CONTENT_TYPE", "CONTENT_LENGTH"}:
            key = f"HTTP_{key}"
        if key in environ:
            value = environ[key] + ("; " if key == "HTTP_COOKIE" else ",") + value
        environ[key] = value
    if not _is_readable(environ.get("CONTENT_TYPE", "")):
        environ["CONTENT_TYPE"] = ""


def _is_readable(content_type: str) -> bool:
    """Whether Django can read it: it does so before any of our code, and fails on odd charsets."""
    try:
        parse_header_parameters(content_type)
    except (LookupError, ValueError):
        return False
    return True
