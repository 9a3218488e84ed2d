"""Listening sockets, taken before anything is started and handed to the servers.

So a taken port is known at once, a free one stays ours, and clients wait instead of being refused
while a server is started again.
"""

import contextlib
import errno
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import psutil

from bettercompute.embedded.failures import CannotStart

HOST = "127.0.0.1"
BACKLOG = 2048


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of the web and the gateway, bound and not yet listening."""

    web: socket.socket
    gateway: socket.socket

    @property
    def url(self) -> str:
        return f"http://{HOST}:{_number(self.web)}"

    @property
    def gateway_url(self) -> str:
        return f"http://{HOST}:{_number(self.gateway)}"

    def open_to_clients(self) -> None:
        """Begin to listen.

        Raises:
            CannotStart: another program, started at the same moment, listens there since.
        """
        for taken, variable in ((self.web, "PORT"), (self.gateway, "GATEWAY_PORT")):
            try:
                taken.listen(BACKLOG)
            except OSError as error:
                raise _refusal(error, port=_number(taken), variable=variable) from error


@contextlib.contextmanager
def take_both(web: int, gateway: int) -> Iterator[Ports]:
    """Bind both ports on the loopback address; 0 is a free one.

    Raises:
        CannotStart: one of them is taken, or not allowed.
    """
    with _take(web, variable="PORT") as first, _take(gateway, variable="GATEWAY_PORT") as second:
        yield Ports(web=first, gateway=second)


def _take(port: int, *, variable: str) -> socket.socket:
    taken = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # Connections of an earlier run may linger in TIME_WAIT: they do not make the port taken.
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind((HOST, port))
    except OSError as error:
        taken.close()
        raise _refusal(error, port=port, variable=variable) from error
    return taken


def _number(taken: socket.socket) -> int:
    port: int = taken.getsockname()[1]
    return port


def _refusal(error: OSError, *, port: int, variable: str) -> CannotStart:
    if error.errno == errno.EADDRINUSE:
        return CannotStart(
            f"Port {port} is taken{_holder(port)}: stop that program, or set {variable} to another."
        )
    return CannotStart(f"Port {port} cannot be used ({error.strerror}): set {variable} to another.")


def _holder(port: int) -> str:
    """Who listens there, if the system tells."""
    with contextlib.suppress(psutil.Error, OSError):
        for connection in psutil.net_connections(kind="tcp"):
            listens = connection.status == psutil.CONN_LISTEN and connection.pid
            if listens and tuple(connection.laddr)[1:] == (port,):
                return f" by {psutil.Process(connection.pid).name()} (pid {connection.pid})"
    return ""
