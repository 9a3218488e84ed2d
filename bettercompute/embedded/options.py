"""What a person may configure of `better-compute up`, all of it by the environment."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bettercompute.embedded import services
from bettercompute.embedded.failures import CannotStart
from bettercompute.embedded.services import Addresses

DEFAULT_DATA = ".data"
DEFAULT_PORT = 8000
DEFAULT_NODES = 5
NODES_MAX = 5_000

_PORT_MAX = 65_535
_BAD_VALUE = 2  # the exit code of wrong usage


@dataclass(frozen=True, slots=True)
class Options:
    """The wishes of one start; a port of 0 is a free one."""

    data: Path
    port: int
    gateway_port: int
    nodes: int
    instead: Addresses


def read(environ: Mapping[str, str]) -> Options:
    """Read BETTERCOMPUTE_DATA, PORT, GATEWAY_PORT, SIM, DATABASE_URL and REDIS_URL.

    Raises:
        CannotStart: one of them has no such value.
    """
    options = Options(
        data=Path(environ.get("BETTERCOMPUTE_DATA") or DEFAULT_DATA),
        port=_number(environ, "PORT", default=DEFAULT_PORT, maximum=_PORT_MAX),
        gateway_port=_number(environ, "GATEWAY_PORT", default=0, maximum=_PORT_MAX),
        nodes=_number(environ, "SIM", default=DEFAULT_NODES, maximum=NODES_MAX),
        instead=services.external(environ),
    )
    if options.port == options.gateway_port != 0:
        raise CannotStart(
            f"PORT and GATEWAY_PORT are both {options.port}: they must differ.",
            exit_code=_BAD_VALUE,
        )
    return options


def _number(environ: Mapping[str, str], variable: str, *, default: int, maximum: int) -> int:
    text = environ.get(variable, "").strip()
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and int(text) <= maximum):
        raise CannotStart(
            f"{variable} must be a whole number from 0 to {maximum}, not {text!r}.",
            exit_code=_BAD_VALUE,
        )
    return int(text)
