"""When the deployment is ready: a reservation made then is bound at once."""

import urllib.request
from datetime import datetime
from http import HTTPStatus
from typing import Any, LiteralString

import psycopg

from bettercompute.embedded.failures import CannotStart
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
  AND i.applied_at IS NOT NULL
"""

# All leases were expired before the programs started: a live one is a worker of this run.
_WORKER_AT_WORK = """
SELECT EXISTS (
    SELECT FROM leases WHERE name LIKE 'shard:%%' AND expires_at > compute_now()
)
"""


class Readiness:
    """Whether a deployment whose programs start now is ready.

    Raises:
        CannotStart: the database cannot be reached.
    """

    def __init__(self, ports: Ports, addresses: Addresses, *, nodes: int) -> None:
        self._ports = ports
        self._database = addresses.database_url
        self._nodes = nodes
        self._since: datetime | None = None
        try:
            self._since = self._ask("SELECT compute_now()")
        except psycopg.OperationalError as error:
            raise CannotStart(f"The database cannot be reached: {error}") from error

    def reached(self) -> bool:
        """Whether the servers answer, a worker works and the simulated nodes can be given work."""
        try:
            return (
                bool(self._ask(_WORKER_AT_WORK))
                and bool(self._ask(_CONNECTED_NODES) >= self._nodes)
                and _answers(f"{self._ports.gateway_url}/readyz")
                and _answers(f"{self._ports.url}/readyz")
            )
        except psycopg.OperationalError:  # a restart of the database, which the supervisor tends
            return False

    def _ask(self, statement: LiteralString) -> Any:
        with psycopg.connect(self._database) as connection:
            row = connection.execute(statement, {"since": self._since}).fetchone()
        assert row is not None
        return row[0]


def _answers(url: str) -> bool:
    try:
        with _DIRECT.open(url, timeout=2) as response:
            return bool(response.status == HTTPStatus.OK)
    except OSError:  # refused, reset, or an error's status
        return False
