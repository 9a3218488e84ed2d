"""Settings of the gateway's server: ``gunicorn --config python:nodes.gateway.server …``.

When told to stop, gunicorn waits for open requests before it tells the application, and a long
poll is an open request for up to a minute. So the application looks by itself whether its worker
is still wanted.
"""

import asyncio
import contextlib
from typing import Any

worker_class = "asgi"
asgi_loop = "uvloop"
workers = 1  # N2: a gateway keeps its sessions in memory and holds one lease
worker_connections = 16_384  # two a node
control_socket_disable = True

LOOK_SECONDS = 0.2


def post_worker_init(worker: Any) -> None:
    """Start looking, in the worker's own loop."""
    worker.loop.create_task(_answer_all_once_stopping(worker))


async def _answer_all_once_stopping(worker: Any) -> None:
    while worker.alive:
        await asyncio.sleep(LOOK_SECONDS)
    gateway = getattr(worker.asgi, "gateway", None)
    if gateway is not None:
        with contextlib.suppress(RuntimeError):
            gateway.watch.stop()
