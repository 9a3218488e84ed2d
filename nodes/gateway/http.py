"""Just enough HTTP for ``/node/v1``: read a request within bounds, answer JSON or a problem."""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import pydantic_core
from pydantic import ValidationError

from bettercompute import errors
from bettercompute.errors import FieldError
from bettercompute.web import bridge, problems, requests
from bettercompute.web.metrics_page import Page
from nodes.protocol import messages
from nodes.protocol.messages import Message

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

BODY_BYTES_MAX = 64 * 1024
QUERY_CHARS_MAX = 1_000
NUMBER_DIGITS_MAX = 19
ERRORS_MAX = 50

M = TypeVar("M", bound=Message)


class Disconnected(Exception):
    """The peer went away before its request was whole."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What was answered."""

    status: int
    bytes: int


@dataclass(slots=True)
class Request:
    """One request, its body not read yet."""

    scope: Scope
    receive: Receive
    id: str = ""  # the agent's own, or a new one
    sent: Sent | None = None  # None until it is answered, and where the agent went away

    def __post_init__(self) -> None:
        self.id = requests.identify(self.header(b"x-request-id") or None)

    @property
    def method(self) -> str:
        """GET, POST…"""
        return str(self.scope["method"])

    @property
    def path(self) -> str:
        """Below the host, also where the request line names that too (RFC 9112, 3.2.2)."""
        return bridge.below_host(str(self.scope["path"]))

    def header(self, name: bytes) -> str:
        """A header's value; nothing where it is missing or not Latin text."""
        for key, value in self.scope["headers"]:
            if key.lower() == name:
                return str(value.decode("latin-1"))
        return ""

    def bearer(self) -> str:
        """The token that came along. Raises: errors.Unauthenticated."""
        scheme, _, token = self.header(b"authorization").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise errors.Unauthenticated(
                "Say hello, then send `Authorization: Bearer <sessionToken>`."
            )
        return token.strip()

    def number(self, name: str, *, default: int, least: int, most: int) -> int:
        """A whole number of the query. Raises: errors.InvalidInput."""
        raw = self.scope.get("query_string", b"")[:QUERY_CHARS_MAX].decode("latin-1")
        text = dict(parse_qsl(raw, keep_blank_values=True)).get(name)
        if text is None:
            return default
        digits = text.removeprefix("-")
        whole = digits.isascii() and digits.isdigit() and len(digits) <= NUMBER_DIGITS_MAX
        if not whole or not least <= int(text) <= most:
            raise errors.InvalidInput.at(name, f"must be a whole number from {least} to {most}")
        return int(text)

    async def body(self, model: type[M], *, bytes_max: int = BODY_BYTES_MAX) -> M:
        """The body as a message of the protocol.

        Raises: errors.UnsupportedMediaType, errors.PayloadTooLarge, errors.InvalidInput,
        Disconnected.
        """
        media_type = self.header(b"content-type").partition(";")[0].strip().lower()
        if media_type != "application/json":
            raise errors.UnsupportedMediaType
        try:
            return model.from_json(await self._read(bytes_max))
        except ValidationError as error:
            raise _invalid(error) from error

    async def _read(self, bytes_max: int) -> bytes:
        length = self.header(b"content-length")
        if length.isascii() and length.isdigit() and int(length[:NUMBER_DIGITS_MAX]) > bytes_max:
            raise errors.PayloadTooLarge(f"A body here may have at most {bytes_max} bytes.")
        whole = bytearray()
        while True:
            event = await self.receive()
            if event["type"] == "http.disconnect":
                raise Disconnected
            whole += event.get("body", b"")
            if len(whole) > bytes_max:
                raise errors.PayloadTooLarge(f"A body here may have at most {bytes_max} bytes.")
            if not event.get("more_body", False):
                return bytes(whole)


def _json(raw: bytes) -> Any:
    """What a refused body holds, to name its fields by; None where it is no JSON at all."""
    try:
        return pydantic_core.from_json(raw)
    except ValueError:
        return None


async def answer(send: Send, request: Request, message: Message) -> None:
    """200 with a message of the protocol."""
    await answer_plain(send, request, message.to_wire())


async def answer_plain(send: Send, request: Request, document: Mapping[str, Any]) -> None:
    """200 with a document."""
    body = messages.canonical(document).encode()
    headers = {"Content-Type": "application/json", "Cache-Control": "no-store"}
    await _send(send, request, status=200, headers=headers, body=body)


async def answer_page(send: Send, request: Request, page: Page) -> None:
    """An answer that is made elsewhere."""
    await _send(send, request, status=page.status, headers=page.headers, body=page.body)


async def answer_problem(send: Send, request: Request, error: errors.ApiError) -> None:
    """The error as problem+json (A3)."""
    headers = {"Content-Type": problems.MEDIA_TYPE, **problems.headers(error)}
    body = problems.body(error, request.id)
    await _send(send, request, status=error.status, headers=headers, body=body)


def _invalid(error: ValidationError) -> errors.InvalidInput:
    """What is wrong with a message, without what it said: that may be large, or a secret."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return errors.InvalidInput(
        errors=[FieldError(_path(each["loc"]), each["msg"]) for each in found[:ERRORS_MAX]]
    )


def _path(location: Sequence[str | int]) -> str:
    """``("entries", 3, "seq")`` as ``entries[3].seq``."""
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return path.removeprefix(".") or "body"


async def _send(
    send: Send, request: Request, *, status: int, headers: Mapping[str, str], body: bytes
) -> None:
    named = {**headers, "Content-Length": str(len(body)), "X-Request-Id": request.id}
    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in named.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
    request.sent = Sent(status, len(body))
