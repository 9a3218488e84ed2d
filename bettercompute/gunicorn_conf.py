"""How gunicorn runs web and gateway: ``gunicorn -c python:bettercompute.gunicorn_conf …``.

Addresses and the number of workers are the command line's.
"""

from typing import Any

from bettercompute.web import connections, lifetime

worker_class = "asgi"
asgi_loop = "uvloop"
asgi_lifespan = "on"
control_socket_disable = True
preload_app = True
# Open requests have this long to end; what waits or streams ends at once (web.lifetime).
graceful_timeout = 10
keepalive = 75  # and so long the head of a request may take: see web.connections
# As long as any query that a client could mean, and some: what is too much is refused by the
# application, in its own words. Beyond this the server refuses it, in plain text.
limit_request_line = 256 * 1024
# X_Request_Id must not pass for X-Request-Id.
header_map = "drop"


def post_worker_init(worker: Any) -> None:
    """The worker knows first that it must stop; none of its connections may stay silent."""
    connections.bound()
    lifetime.watch(worker)
