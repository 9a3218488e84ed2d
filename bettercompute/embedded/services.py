"""The embedded PostgreSQL and Valkey, or the ones the environment names."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psycopg
import redis

from bettercompute.embedded import directories
from bettercompute.embedded.directories import Directories
from bettercompute.embedded.failures import CannotStart
from bettercompute.embedded.postgres import Postgres
from bettercompute.embedded.supervisor import Supervisor
from bettercompute.embedded.valkey import Valkey

READY_SECONDS = 120  # crash recovery replays WAL
CONNECT_SECONDS = 5

_POSTGRES_SCHEMES = ("postgresql://", "postgres://")
_REDIS_SCHEMES = ("redis://", "rediss://", "unix://")


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where PostgreSQL and Redis or Valkey are."""

    database_url: str
    redis_url: str


def external(environ: Mapping[str, str]) -> Addresses:
    """The servers that somebody else runs: DATABASE_URL and REDIS_URL, empty where not given.

    Raises:
        CannotStart: one of them is no such address.
    """
    found = Addresses(environ.get("DATABASE_URL", ""), environ.get("REDIS_URL", ""))
    for variable, value, schemes in (
        ("DATABASE_URL", found.database_url, _POSTGRES_SCHEMES),
        ("REDIS_URL", found.redis_url, _REDIS_SCHEMES),
    ):
        if value and not value.startswith(schemes):
            raise CannotStart(
                f"{variable} must start with {' or '.join(schemes)}; "
                "unset it to use the embedded server.",
                exit_code=2,
            )
    return found


def require_given(given: Addresses) -> None:
    """Connect to the servers that somebody else runs: an address with a mistake is said at once.

    Raises:
        CannotStart: one of them does not answer, or refuses us.
    """
    if given.database_url:
        try:
            psycopg.connect(given.database_url, connect_timeout=CONNECT_SECONDS).close()
        except psycopg.Error as error:
            raise _unreachable("PostgreSQL", "DATABASE_URL", error) from error
    if given.redis_url:
        try:
            with redis.Redis.from_url(
                given.redis_url, socket_connect_timeout=CONNECT_SECONDS
            ) as client:
                client.ping()
        except (redis.RedisError, ValueError) as error:
            raise _unreachable("Valkey", "REDIS_URL", error) from error


def _unreachable(server: str, variable: str, error: Exception) -> CannotStart:
    reason = " ".join(str(error).split()).rstrip(".")
    return CannotStart(
        f"{server} cannot be used ({reason}): correct {variable}, or unset it to use the embedded "
        "server."
    )


def place(home: Path, *, instead: Addresses) -> Directories | None:
    """The directories of the services that this deployment runs itself, None if it runs none."""
    if instead.database_url and instead.redis_url:
        return None
    return directories.place_services(home)


def start(
    supervisor: Supervisor,
    placed: Directories | None,
    *,
    instead: Addresses,
    parameters: Mapping[str, str],
) -> Addresses:
    """Start what is not given from outside, and wait until it answers."""
    if placed is None:
        return instead
    env = environment(os.environ)
    postgres = Postgres(placed, parameters=parameters, env=env)
    valkey = Valkey(placed, env=env)
    wanted: list[Postgres | Valkey] = []
    if not instead.database_url:
        wanted.append(postgres)
    if not instead.redis_url:
        wanted.append(valkey)
    for service in wanted:
        service.prepare()
    supervisor.start(wanted)
    for service in wanted:
        supervisor.wait_until(service.is_ready, what=service.name, seconds=READY_SECONDS)
    return Addresses(instead.database_url or postgres.url, instead.redis_url or valkey.url)


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Nothing of the caller's but the path: PGDATA or LC_ALL would change what is started."""
    return {"PATH": environ.get("PATH", os.defpath), "LC_ALL": "C"}
