"""HTTP to whichever gateway answers (N8).

An agent knows several addresses and stays with one while it works. A session is good at any of
them, so moving costs one failed call. The caller waits and asks again; this module never sleeps.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import httpx2

from bettercompute import ids
from nodes.protocol import codes

CALL_SECONDS = 10.0
CONNECT_SECONDS = 3.0


class Unreachable(Exception):
    """No useful answer; nothing is known of what the gateway did. Ask again, elsewhere."""


class SessionEnded(Exception):
    """The gateway does not know this session: say hello again."""


class Superseded(Exception):
    """Another process says that it is this node's agent, and it came later (C37)."""


class Refused(Exception):
    """The gateway will never accept this, so asking again is no use."""


class Link:
    """Calls to the first of several gateways that works."""

    def __init__(
        self,
        addresses: Sequence[str],
        client: httpx2.AsyncClient,
        *,
        connect_seconds: float = CONNECT_SECONDS,
    ) -> None:
        assert addresses, "an agent needs the address of a gateway"
        self._addresses = [address.rstrip("/") for address in addresses]
        self._client = client
        self._connect_seconds = connect_seconds
        self._current = 0

    @property
    def address(self) -> str:
        """The gateway in use."""
        return self._addresses[self._current]

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: str | None = None,
        token: str | None = None,
        seconds: float = CALL_SECONDS,
    ) -> bytes:
        """The body of a good answer. Raises: Unreachable, SessionEnded, Superseded, Refused."""
        request_id = ids.new("req")  # the gateway's log has it too
        headers = {"X-Request-Id": request_id}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        address = self._current
        try:
            answer = await self._client.request(
                method,
                self._addresses[address] + path,
                content=None if body is None else body.encode(),
                headers=headers,
                timeout=httpx2.Timeout(seconds, connect=self._connect_seconds),
            )
        except (httpx2.RequestError, OSError) as error:
            self._move_on(address)
            raise Unreachable(f"{self._addresses[address]}: {error!r} ({request_id})") from error
        if answer.status_code >= 500 or answer.status_code == httpx2.codes.TOO_MANY_REQUESTS:
            self._move_on(address)
        _raise_for(answer, request_id)
        return answer.content

    def _move_on(self, failed: int) -> None:
        # Several calls may fail at once; together they move by one.
        if failed == self._current:
            self._current = (self._current + 1) % len(self._addresses)


@dataclass(slots=True)
class Backoff:
    """How long to wait after each failure in a row: longer each time, and at random (N8)."""

    first_seconds: float = 0.2
    most_seconds: float = 10.0
    random: Random = field(default_factory=Random)
    _failures: int = 0

    def next(self) -> float:
        """The next wait."""
        ceiling = min(self.most_seconds, self.first_seconds * 2.0 ** min(self._failures, 32))
        self._failures += 1
        return self.random.uniform(ceiling / 2, ceiling)

    def reset(self) -> None:
        """It worked."""
        self._failures = 0


def _raise_for(answer: httpx2.Response, request_id: str) -> None:
    if answer.status_code < 300:
        return
    problem = _problem(answer)
    code, detail = problem.get("code", ""), problem.get("detail", "")
    said = f"{answer.status_code} {code}: {detail} ({request_id})"
    if code == codes.SESSION_SUPERSEDED:
        raise Superseded(said)
    if answer.status_code == httpx2.codes.UNAUTHORIZED:
        raise SessionEnded(said)
    if answer.status_code >= 500 or answer.status_code == httpx2.codes.TOO_MANY_REQUESTS:
        raise Unreachable(said)
    raise Refused(said)


def _problem(answer: httpx2.Response) -> dict[str, Any]:
    try:
        problem = json.loads(answer.content)
    except ValueError:
        return {}
    return problem if isinstance(problem, dict) else {}
