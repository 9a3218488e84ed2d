"""One attempt to deliver a message, bounded in everything a hostile receiver could draw out (A6).

The interface, for whoever delivers (one event loop, many attempts in flight)::

    async with Sender(rules=Rules(networks=..., plain_http=...)) as sender:
        attempt = await sender.send(Request(url=..., message_id=..., ...))
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum


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
    secrets: Sequence[str]  # whsec_…, the newest first; two while one is replaced
    headers: Mapping[str, str] = field(default_factory=dict)  # beside ours, such as traceparent


@dataclass(frozen=True, slots=True)
class Attempt:
    """What came of it; ``failure`` is None exactly if the receiver took the message (2xx)."""

    failure: Failure | None
    message: str  # one sentence about the failure, for whoever runs the receiver
    latency_ms: int
    status: int | None = None
    answer: bytes = b""  # the first 4 KiB of its body, as it came
    answer_cut: bool = False  # there was more
    retry_after: timedelta | None = None  # what it asks for; whoever schedules bounds it
    address: str | None = None  # the one connected to
    request_headers: Mapping[str, str] = field(default_factory=dict)  # as sent; no secret in them
