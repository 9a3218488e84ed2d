"""Connections to receivers: to an address that was judged, reused only for the same one.

httpcore2 speaks HTTP/1.1; which connection it speaks over is chosen here, since its own pool goes
by name. A name that resolves to something else the next time gets another connection, and two names
on one address never share one: each checked its own certificate.
"""

import contextlib
import ssl
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import httpcore2
from httpcore2 import AsyncHTTP11Connection, AsyncNetworkStream

from outbox.webhooks.addresses import Address, Target

IDLE_SECONDS = 30.0
IDLE_MAX = 256
IDLE_PER_RECEIVER_MAX = 8


class TooMuch(httpcore2.ReadError):
    """The receiver sends more than is read."""


class NoTls(Exception):
    """The receiver has no certificate that proves its name, or speaks no TLS."""


@dataclass(frozen=True, slots=True)
class Place:
    """What a connection is good for."""

    scheme: str
    host: str
    port: int
    address: Address


def place(target: Target, address: Address) -> Place:
    """Where a target is at this address."""
    return Place(target.scheme, target.host, target.port, address)


class Metered(AsyncNetworkStream):
    """A stream that hands over a bounded number of bytes for each answer.

    What is written waits until an answer is wanted, so that head and body leave together.
    """

    def __init__(self, stream: AsyncNetworkStream) -> None:
        self._stream = stream
        self._unsent = b""
        self.left = 0

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Some bytes of the answer.

        Raises:
            TooMuch: all that may be read was.
        """
        await self._send(timeout)
        if self.left <= 0:
            raise TooMuch("the answer is too long")
        data = await self._stream.read(min(max_bytes, self.left), timeout)
        self.left -= len(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Have it sent with the next read."""
        self._unsent += buffer

    async def aclose(self) -> None:
        """Close at once, whatever is under way."""
        await self._stream.aclose()

    def get_extra_info(self, info: str) -> Any:
        """What is known of the socket."""
        return self._stream.get_extra_info(info)

    async def _send(self, timeout: float | None) -> None:
        unsent, self._unsent = self._unsent, b""
        if unsent:
            # A receiver may answer before it has read all, and close: what it said counts.
            with contextlib.suppress(httpcore2.WriteError):
                await self._stream.write(unsent, timeout)


@dataclass(slots=True)
class Connection:
    """One connection, and its meter."""

    place: Place
    http: AsyncHTTP11Connection
    meter: Metered

    async def aclose(self) -> None:
        """Close it at once."""
        await self.http.aclose()


async def connect(
    where: Place, *, tls: ssl.SSLContext, connect_seconds: float, handshake_seconds: float
) -> Connection:
    """A connection to exactly this address, and proof of the name if it is by TLS.

    Raises:
        httpcore2.ConnectError, httpcore2.ConnectTimeout: nobody answers there.
        NoTls: the other side did not prove its name.
        TimeoutError: the handshake takes too long.
    """
    stream = await httpcore2.AnyIOBackend().connect_tcp(
        str(where.address), where.port, timeout=connect_seconds
    )
    if where.scheme == "https":
        stream = await _proven(stream, where.host, tls=tls, seconds=handshake_seconds)
    meter = Metered(stream)
    origin = httpcore2.Origin(where.scheme.encode(), where.host.encode(), where.port)
    http = AsyncHTTP11Connection(origin, meter, keepalive_expiry=IDLE_SECONDS)
    return Connection(where, http, meter)


async def _proven(
    stream: AsyncNetworkStream, host: str, *, tls: ssl.SSLContext, seconds: float
) -> AsyncNetworkStream:
    try:
        return await stream.start_tls(tls, server_hostname=host, timeout=seconds)
    except httpcore2.ConnectTimeout:
        raise TimeoutError from None
    except (httpcore2.ConnectError, ssl.SSLError, OSError) as error:
        raise NoTls(str(error) or "closed during the handshake") from None
    except BaseException:  # cancelled: httpcore2 would leave the socket open
        await stream.aclose()
        raise


class Idle:
    """Connections that nobody uses, the longest unused first. Of one event loop."""

    def __init__(self) -> None:
        self._all: OrderedDict[int, Connection] = OrderedDict()
        self._at: dict[Place, list[Connection]] = {}

    async def take(self, places: Iterable[Place]) -> Connection | None:
        """One to any of these places, still open as far as can be seen."""
        for where in places:
            while (found := self._newest(where)) is not None:
                if not found.http.has_expired():
                    return found
                await found.aclose()
        return None

    async def keep(self, connection: Connection) -> None:
        """Give one back after an answer; close it if it cannot serve again, or there are many."""
        await self._close_expired()
        fellows = self._at.setdefault(connection.place, [])
        if not connection.http.is_idle() or len(fellows) >= IDLE_PER_RECEIVER_MAX:
            if not fellows:
                del self._at[connection.place]
            await connection.aclose()
            return
        fellows.append(connection)
        self._all[id(connection)] = connection
        if len(self._all) > IDLE_MAX:
            await self._drop_oldest()

    async def aclose(self) -> None:
        """Close all."""
        while self._all:
            await self._drop_oldest()

    def _newest(self, where: Place) -> Connection | None:
        fellows = self._at.get(where)
        if not fellows:
            return None
        found = fellows[-1]
        self._remove(found)
        return found

    async def _close_expired(self) -> None:
        while self._all and next(iter(self._all.values())).http.has_expired():
            await self._drop_oldest()

    async def _drop_oldest(self) -> None:
        oldest = next(iter(self._all.values()))
        self._remove(oldest)
        await oldest.aclose()

    def _remove(self, connection: Connection) -> None:
        del self._all[id(connection)]
        fellows = self._at[connection.place]
        fellows.remove(connection)
        if not fellows:
            del self._at[connection.place]
