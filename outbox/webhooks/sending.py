"""One attempt to deliver a message, bounded in all that a hostile receiver could draw out (A6).

For whoever delivers: one ``Sender`` in one event loop, as many attempts in flight as is liked::

    async with Sender(rules=rules) as sender:
        attempt = await sender.send(Request(url=..., message_id=..., ...))

``send`` raises nothing but its own cancellation, and ends within ``Limits.total_seconds``: in that
time it asks for the name's addresses once, judges all of them, connects to one of those and to no
other, checks the certificate for the name, and reads 64 KiB at most. It follows no redirect,
decodes no compression and keeps no cookie. The first line of an answer decides: a receiver that
says 2xx has taken the message, however it goes on.
"""

import asyncio
import contextlib
import re
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from functools import cache
from types import TracebackType
from typing import Self

import httpcore2

from outbox.webhooks import addresses, answers, connections, resolving, signing
from outbox.webhooks.addresses import Address, Refused, Rules, Target
from outbox.webhooks.connections import Connection, Place
from outbox.webhooks.resolving import Resolver

USER_AGENT = "BetterCompute-Webhooks/1"
ADDRESSES_TRIED_MAX = 3


@dataclass(frozen=True, slots=True)
class Limits:
    """How long and how much; the rest of the total is for sending and the answer."""

    total_seconds: float = 15.0
    lookup_seconds: float = 5.0
    connect_seconds: float = 5.0
    handshake_seconds: float = 5.0
    read_bytes_max: int = 64 * 1024  # of one answer, its head included
    kept_bytes_max: int = 4 * 1024  # of its body


class Failure(StrEnum):
    """Why there is no good answer."""

    REFUSED = "refused"  # the address may not be called
    UNRESOLVED = "unresolved"  # the name has no address
    UNREACHABLE = "unreachable"  # nobody accepts a connection there
    TLS = "tls"  # no certificate that proves the name, or no TLS at all
    TIMED_OUT = "timed-out"
    BROKEN = "broken"  # closed early, or it does not speak HTTP/1.1
    STATUS = "status"  # it answered, but not with 2xx; redirects are not followed


@dataclass(frozen=True, slots=True)
class Request:
    """A message to one endpoint. The same id and body bytes come with every retry (case 30)."""

    url: str
    message_id: str
    timestamp: int  # of this attempt, in seconds
    body: bytes
    secrets: Sequence[str]  # whsec_…, the newest first; several after a rotation
    headers: Mapping[str, str] = field(default_factory=dict)  # beside ours, such as traceparent


@dataclass(frozen=True, slots=True)
class Attempt:
    """What came of it; ``failure`` is None exactly if the receiver took the message (2xx)."""

    failure: Failure | None
    message: str  # one sentence about the failure, for whoever runs the receiver
    latency_ms: int
    status: int | None = None
    answer: bytes = b""  # the first 4 KiB of its body, as it came
    answer_cut: bool = False  # there was more, or was to be
    retry_after: timedelta | None = None  # what it asks for; whoever schedules bounds it
    address: str | None = None  # the one connected to
    request_headers: Mapping[str, str] = field(default_factory=dict)  # as sent; no secret in them


@dataclass(slots=True)
class _Course:
    """How far an attempt has come, for the case that it ends here."""

    began: float
    headers: Mapping[str, str] = field(default_factory=dict)
    phase: str = "looking up the address"
    address: Address | None = None
    head: answers.Head | None = None
    body: bytearray = field(default_factory=bytearray)
    cut: bool = False


# Before an answer's head has come: the receiver went away, or sent what is no answer.
_GONE = (httpcore2.NetworkError, httpcore2.ProtocolError, ssl.SSLError)
_ASIDES = re.compile(r"\[[^\]]*\]|\(_ssl\.c:\d+\)")
_BYTES = re.compile(r"bytearray\(b(.*)", re.DOTALL)
SAID_CHARACTERS_MAX = 150


class _Failed(Exception):
    """The attempt ends here."""

    def __init__(self, failure: Failure, message: str) -> None:
        self.failure = failure
        super().__init__(message)


class Sender:
    """Attempts to deliver, over connections that it keeps. An async context manager."""

    def __init__(
        self,
        *,
        rules: Rules,
        limits: Limits | None = None,
        resolver: Resolver | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._rules = rules
        self._limits = limits or Limits()
        self._resolver = resolver or Resolver()
        self._own_resolver = resolver is None
        self._tls = tls or _trusting_authorities()
        self._idle = connections.Idle()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close what is open; what is in flight should have ended."""
        await self._idle.aclose()
        if self._own_resolver:
            self._resolver.close()

    async def send(self, request: Request) -> Attempt:
        """Try once."""
        course = _Course(time.monotonic())
        try:
            async with asyncio.timeout(self._limits.total_seconds):
                await self._deliver(request, course)
        except (TimeoutError, httpcore2.TimeoutException):
            failed = _Failed(Failure.TIMED_OUT, f"Timed out while {course.phase}.")
            return _ended(course, request, failed)
        except _Failed as failed:
            return _ended(course, request, failed)
        except _GONE as error:
            what = "Closed the connection, or does not speak HTTP/1.1"
            return _ended(course, request, _Failed(Failure.BROKEN, f"{what}: {_said(error)}."))
        return _ended(course, request, None)

    async def _deliver(self, request: Request, course: _Course) -> None:
        try:
            target = addresses.parse(request.url, rules=self._rules)
        except Refused as refusal:
            raise _Failed(Failure.REFUSED, f"The URL may not be called: {refusal}.") from None
        course.headers = _headers(request, target)
        places = [connections.place(target, one) for one in await self._judged(target)]
        idle = await self._idle.take(places)
        if idle is not None:
            # The receiver may have closed it just now. Nobody saw the message then, or somebody
            # did who knows its id: it goes out again, over a new one.
            with contextlib.suppress(*_GONE):
                await self._tell(idle, request, target, course)
                return
        fresh = await self._connected(places, course)
        await self._tell(fresh, request, target, course)

    async def _judged(self, target: Target) -> Sequence[Address]:
        """The target's addresses, asked for once; any of them may be connected to."""
        if target.address is not None:
            return (target.address,)  # parse judged it
        name = resolving.absolute(target, rules=self._rules)
        try:
            found = await self._resolver.addresses(name, seconds=self._limits.lookup_seconds)
        except resolving.Unresolved:
            raise _Failed(Failure.UNRESOLVED, f"{target.host} has no address.") from None
        if not addresses.all_allowed(found, rules=self._rules):
            message = f"{target.host} has an address that is not public."
            raise _Failed(Failure.REFUSED, message)
        return found

    async def _connected(self, places: Sequence[Place], course: _Course) -> Connection:
        course.phase = "connecting"
        refused: Exception | None = None
        for place in places[:ADDRESSES_TRIED_MAX]:
            course.address = place.address
            try:
                return await connections.connect(
                    place,
                    tls=self._tls,
                    connect_seconds=self._limits.connect_seconds,
                    handshake_seconds=self._limits.handshake_seconds,
                )
            except connections.NoTls as error:
                raise _Failed(Failure.TLS, f"No TLS for this name: {_said(error)}.") from None
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                refused = error
        if isinstance(refused, httpcore2.ConnectTimeout):
            raise TimeoutError
        message = f"Nobody accepts connections at {course.address}, port {places[0].port}."
        raise _Failed(Failure.UNREACHABLE, message)

    async def _tell(
        self, connection: Connection, request: Request, target: Target, course: _Course
    ) -> None:
        """Send the message and read the answer; its head is in the course as soon as it comes."""
        course.phase = "waiting for the answer"
        course.address = connection.place.address
        connection.meter.left = self._limits.read_bytes_max
        try:
            response = await connection.http.handle_async_request(
                httpcore2.Request(
                    "POST",
                    httpcore2.URL(target.url),
                    headers=list(course.headers.items()),
                    content=request.body,
                )
            )
            course.head = answers.head(response.status, response.headers)
            await self._read_body(response, course)
        except BaseException:
            await connection.aclose()
            raise
        await self._idle.keep(connection)

    async def _read_body(self, response: httpcore2.Response, course: _Course) -> None:
        """Keep the first of it; read some more, so that the connection can serve again."""
        try:
            async for chunk in response.aiter_stream():
                room = self._limits.kept_bytes_max - len(course.body)
                course.body += chunk[:room]
                course.cut |= len(chunk) > room
        except _GONE:
            course.cut = True
        await response.aclose()


@cache
def _trusting_authorities() -> ssl.SSLContext:
    """TLS as of any client; reading the authorities takes longer than many attempts."""
    context = httpcore2.default_ssl_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _headers(request: Request, target: Target) -> dict[str, str]:
    return {
        "Host": target.authority,
        "User-Agent": USER_AGENT,
        "Accept": "*/*",
        "Accept-Encoding": "identity",  # what comes is kept as it came: nothing is decoded
        "Content-Type": "application/json",
        "Content-Length": str(len(request.body)),
        **signing.headers(
            request.secrets,
            message_id=request.message_id,
            timestamp=request.timestamp,
            body=request.body,
        ),
        **request.headers,
    }


def _ended(course: _Course, request: Request, failed: _Failed | None) -> Attempt:
    head = course.head
    failure, message = (None, "") if failed is None else (failed.failure, str(failed))
    if head is not None:
        failure = None if head.taken else Failure.STATUS
        message = "" if head.taken else answers.complaint(head)
    return Attempt(
        failure=failure,
        message=message,
        latency_ms=round((time.monotonic() - course.began) * 1000),
        status=None if head is None else head.status,
        answer=bytes(course.body),
        answer_cut=course.cut or (head is not None and failed is not None),
        retry_after=None if head is None else answers.retry_after(head, now=request.timestamp),
        address=None if course.address is None else str(course.address),
        request_headers=course.headers,
    )


def _said(error: Exception) -> str:
    """What a library says of an error, without its own file names and codes; a short text.

    It may quote what the receiver sent, however much of it.
    """
    said = _BYTES.sub(r"\1", _ASIDES.sub("", str(error)[: 4 * SAID_CHARACTERS_MAX])).strip(" .)")
    short = said if len(said) <= SAID_CHARACTERS_MAX else f"{said[:SAID_CHARACTERS_MAX]}…"
    return short or type(error).__name__
