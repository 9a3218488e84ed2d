"""What both clients do with httpx2: where to, with which headers, and what counts as lost."""

import importlib.metadata
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from typing import Any

import httpx2

from bettercompute.client.calls import Answer, Lost
from bettercompute.client.failures import Trouble
from bettercompute.client.flows import Send
from bettercompute.client.following import IDLE_SECONDS, PATH, Following

CONNECT_SECONDS = 5.0
OPENED = 200  # of a stream
_TOKEN = re.compile(r"[\x21-\x7e]{1,512}\Z")


def settings(url: str, token: str) -> dict[str, Any]:
    """Arguments of an httpx2 client. Redirects stay off: the token goes to this server alone.

    Raises:
        ValueError: the address is none, or the token cannot be one.
    """
    no_address = f"the address must be like https://compute.example.org, not {url!r}"
    try:
        parsed = httpx2.URL(url.rstrip("/"))
        parsed.raw_host.decode("ascii").encode("idna")  # as whoever looks for it will
    except (httpx2.InvalidURL, UnicodeError) as error:
        raise ValueError(no_address) from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ValueError(no_address)
    if parsed.userinfo or parsed.query or parsed.fragment:
        raise ValueError("the address must have no user, query or fragment")
    if not _TOKEN.match(token):
        raise ValueError("the token is empty or has characters that no token has")
    return {
        "base_url": parsed,
        "headers": {
            "Authorization": f"Bearer {token}",
            "Accept": "application/json",
            "User-Agent": f"better-compute-python/{importlib.metadata.version('bettercompute')}",
        },
        "follow_redirects": False,
        # Without TLS there is no certificate to judge, and reading all authorities takes a while.
        "verify": parsed.scheme == "https",
    }


def arguments(send: Send) -> Mapping[str, Any]:
    """Arguments of one request."""
    call = send.call
    return {
        "method": call.method,
        "url": call.path,
        "params": list(call.query),
        "content": call.body,
        "headers": list(call.headers),
        "timeout": httpx2.Timeout(send.seconds, connect=min(send.seconds, CONNECT_SECONDS)),
    }


def stream(following: Following) -> Mapping[str, Any]:
    """Arguments of a request whose answer goes on."""
    return {
        "method": "GET",
        "url": PATH,
        "params": list(following.query),
        "headers": following.headers,
        "timeout": httpx2.Timeout(IDLE_SECONDS, connect=CONNECT_SECONDS),
    }


def answered(response: httpx2.Response) -> Answer:
    """The answer, read whole."""
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Answer(response.status_code, headers, response.content)


def lost(error: Exception, url: str) -> Lost:
    """Why there is no answer, and whether the request may have arrived."""
    never_sent = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout)
    what = "does not answer in time" if isinstance(error, httpx2.TimeoutException) else "failed"
    reason = str(error) or type(error).__name__
    return Lost(f"{url} {what}: {reason}", sent=not never_sent, trouble=_trouble(error))


def _trouble(error: Exception) -> Trouble:
    """What is behind it: httpx2 wraps the errors of the operating system and of TLS."""
    if isinstance(error, httpx2.TimeoutException):
        return Trouble.TIME
    for cause in _causes(error):
        match cause:
            case ssl.SSLError():
                return Trouble.TRUST
            case socket.gaierror():
                return Trouble.NAME
            case ConnectionRefusedError():
                return Trouble.REFUSED
    return Trouble.BROKEN


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
