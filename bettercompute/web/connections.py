"""Connections on which no request comes (A11).

gunicorn ends one that is idle behind an answer, and waits for ever for the first request, however
slowly its head drips in. Whoever opens many such connections would leave no room for others, so the
first head has no longer than any later one: ``keepalive``.
"""

import asyncio
from typing import Any

from gunicorn.asgi.protocol import ASGIProtocol
from gunicorn.workers import gasgi


class Connection(ASGIProtocol):  # type: ignore[misc]  # gunicorn has no types
    """One that must bring a whole head in time."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait; the arrival of a head ends it, as it does between requests."""
        super().connection_made(transport)
        self._arm_keepalive_timer()


def bound(worker_module: Any = gasgi) -> None:
    """Have gunicorn's workers make these (``gunicorn_conf.post_worker_init``)."""
    worker_module.ASGIProtocol = Connection
