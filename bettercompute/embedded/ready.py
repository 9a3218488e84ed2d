"""When the deployment is ready: a reservation made then is bound at once."""

import urllib.request
from http import HTTPStatus
from typing import Any, LiteralString

import psycopg

from bettercompute.embedded.ports import Ports
from bettercompute.embedded.services import Addresses

# A proxy of the environment is not for addresses of this machine.
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))

# Connected in this run, not in an earlier one, and with the inventory it sent applied.
_CONNECTED_NODES = """
SELECT count(*)
FROM node_sessions AS s
JOIN node_inventories AS i ON i.node_id = s.node_id
WHERE s.connected_at >= %(since)s::timestamptz
  AND i.applied_at >= i.received_at
"""


class Readiness:
    """Whether a deployment whose programs start now is ready."""

    def __init__(self, ports: Ports, addresses: Addresses, *, nodes: int) -> None:
        self._ports = ports
        self._database = addresses.database_url
        self._nodes = nodes
        self._since = _one(self._database, "SELECT compute_now()")

    def reached(self) -> bool:
        """Whether the servers answer and the simulated nodes can be given work."""
        return (
            self._nodes_connected()
            and _answers(f"{self._ports.gateway_url}/readyz")
            and _answers(f"{self._ports.url}/readyz")
        )

    def _nodes_connected(self) -> bool:
        connected = _one(self._database, _CONNECTED_NODES, since=self._since)
        return bool(connected >= self._nodes)


def _one(database_url: str, statement: LiteralString, **parameters: object) -> Any:
    with psycopg.connect(database_url) as connection:
        row = connection.execute(statement, parameters).fetchone()
    assert row is not None
    return row[0]


def _answers(url: str) -> bool:
    try:
        with _DIRECT.open(url, timeout=2) as response:
            return bool(response.status == HTTPStatus.OK)
    except OSError:  # refused, reset, or an error's status
        return False
