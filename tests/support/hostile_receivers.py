"""Receivers of webhooks on 127.0.0.1, in the test's own event loop; most of them hostile.

Each is a coroutine that is given a connection's two ends and does what it likes with them. Beside
them a message to send, and a name server that answers otherwise each time.
"""

import asyncio
import contextlib
import ipaddress
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from outbox.webhooks.addresses import Rules
from outbox.webhooks.resolving import Resolver
from outbox.webhooks.sending import Request

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
LOOPBACK = Rules(networks=(ipaddress.ip_network("127.0.0.1"),), plain_http=True)

T = TypeVar("T")
Reader = asyncio.StreamReader
Writer = asyncio.StreamWriter
Behaviour = Callable[[Reader, Writer], Awaitable[None]]


@dataclass(eq=False)
class Receiver:
    """Where it is, and how often somebody connected."""

    port: int
    connections: int = 0
    asked: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    def url(self, host: str = "127.0.0.1", scheme: str = "http") -> str:
        """Its address."""
        return f"{scheme}://{host}:{self.port}/hook"

    def message(self, host: str = "127.0.0.1", scheme: str = "http") -> Request:
        """A message to it."""
        return message(self.url(host, scheme))


@contextlib.asynccontextmanager
async def receiver(
    behaviour: Behaviour, *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Receiver]:
    """One that behaves like this, as long as the block runs."""
    running: set[asyncio.Task[None]] = set()
    here = Receiver(0)

    async def serve(reader: Reader, writer: Writer) -> None:
        here.connections += 1
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        try:
            # The other side may go at any moment, and a test may end.
            with contextlib.suppress(OSError, EOFError, asyncio.CancelledError):
                await behaviour(reader, writer)
        finally:
            running.discard(task)
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls, backlog=1_024)
    here.port = server.sockets[0].getsockname()[1]
    try:
        yield here
    finally:
        server.close()
        for task in list(running):
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await server.wait_closed()
        await asyncio.sleep(0)  # aborted transports let go of their sockets


def message(url: str) -> Request:
    """A message to send there."""
    return Request(
        url=url,
        message_id="evt_1",
        timestamp=1_772_442_000,
        body=b'{"id":"evt_1","type":"reservation.active"}',
        secrets=[SECRET],
    )


def name_server(*answers: Sequence[str]) -> Resolver:
    """One that gives its first answer, its second, and so on."""
    left = [tuple(ipaddress.ip_address(each) for each in one) for one in answers]
    return Resolver(lambda _: left.pop(0) if len(left) > 1 else left[0])


class LeapingLoop(asyncio.SelectorEventLoop):
    """An event loop whose time a receiver can move on, until whoever waits has waited too long."""

    leapt = 0.0

    def time(self) -> float:
        """What deadlines in this loop are judged by, in seconds."""
        return super().time() + self.leapt


def run(scenario: Coroutine[Any, Any, T]) -> T:
    """Run a scenario in which receivers may ``leap``."""
    with asyncio.Runner(loop_factory=LeapingLoop) as runner:
        return runner.run(scenario)


async def leap() -> None:
    """Let an hour pass, once everybody in this loop has done what there is to do now."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, LeapingLoop)
    for _ in range(10):  # turns of the loop: nobody here waits for anything outside it
        await asyncio.sleep(0.01)
    loop.leapt += 3_600


async def lets_time_pass(reader: Reader, writer: Writer) -> None:
    """Does nothing for longer than anybody waits."""
    await leap()
    await asyncio.Event().wait()


async def hangs(reader: Reader, writer: Writer) -> None:
    """Does nothing until the test is over."""
    await asyncio.Event().wait()


async def closes_at_once(reader: Reader, writer: Writer) -> None:
    """Goes away."""


async def request(reader: Reader) -> tuple[dict[str, str], bytes]:
    """Read one request."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    headers = {
        name.lower(): value.strip()
        for name, _, value in (line.partition(":") for line in head.split("\r\n")[1:] if line)
    }
    return headers, await reader.readexactly(int(headers["content-length"]))


def answering(raw: bytes, *, into: list[tuple[dict[str, str], bytes]] | None = None) -> Behaviour:
    """Reads each request and answers these bytes, over and over."""

    async def behave(reader: Reader, writer: Writer) -> None:
        while True:
            asked = await request(reader)
            if into is not None:
                into.append(asked)
            writer.write(raw)
            await writer.drain()

    return behave


def certified(
    directory: Path, *names: str, ca: bool = True
) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """TLS of a server for these names, and of a client that trusts their authority."""
    now = datetime(2020, 1, 1, tzinfo=UTC)
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())

    def builder(
        name: str, issuer: str, public: ec.EllipticCurvePublicKey
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now)
            .not_valid_after(now + timedelta(days=36_500))
        )

    authority = (
        builder("authority", "authority", ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    issuer, signer = ("authority", ca_key) if ca else (names[0], key)
    certificate = (
        builder(names[0], issuer, key.public_key())
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False
        )
        .sign(signer, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (directory / "ca.pem").write_bytes(authority.public_bytes(pem))
    (directory / "server.pem").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + certificate.public_bytes(pem)
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(directory / "server.pem")
    return server, ssl.create_default_context(cafile=str(directory / "ca.pem"))
