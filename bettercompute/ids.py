"""Prefixed identifiers.

Most ids are time-sortable (``pool_01k…``: 48 bits of milliseconds, 80 random bits, in Crockford's
base 32). A reservation's id is derived from who asked for what (R6), so a retry reaches the same
row.
"""

import base64
import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NewType

TenantId = NewType("TenantId", str)
AccountId = NewType("AccountId", str)
PoolId = NewType("PoolId", str)
NodeId = NewType("NodeId", str)
DeviceId = NewType("DeviceId", str)
ReservationId = NewType("ReservationId", str)
SeriesId = NewType("SeriesId", str)
AllocationId = NewType("AllocationId", str)
EventId = NewType("EventId", str)

PREFIXES = (
    "ten",  # tenant
    "usr",  # account: a person or service that acts
    "tok",  # API token
    "cal",  # calendar feed
    "pol",  # policy
    "pool",
    "off",  # offer of a pool to another tenant
    "cof",  # capacity offer: a plan that a create may take
    "bud",  # budget of a tenant
    "node",
    "enr",  # enrolment of a node
    "mnt",  # planned maintenance of a node or pool
    "rsv",  # reservation
    "ser",  # a recurring reservation: a series of occurrences
    "alloc",  # a reservation's part on one node
    "cnf",  # confirmation: what an agent asks its person for
    "cmd",  # command to a node
    "evt",  # event
    "whk",  # webhook endpoint
    "aud",  # entry of the audit
    "req",  # one HTTP request
    "hold",  # one extension under way
    "own",  # one process, as an owner of leases
)

SECRET_BYTES = 32

_CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"


def new(prefix: str) -> str:
    """A fresh id such as ``pool_01k9…``, sorting by the moment it was made."""
    assert prefix in PREFIXES, prefix
    number = _draw()
    digits = [_CROCKFORD[(number >> shift) & 31] for shift in range(125, -1, -5)]
    return f"{prefix}_{''.join(digits)}"


@dataclass(frozen=True, slots=True)
class Drawn:
    """The id of what is yet to be made, and the bytes that its secret is made of."""

    id: str
    secret: bytes = field(repr=False)

    @property
    def letters(self) -> str:
        """The bytes as people copy them: small letters and digits."""
        return _letters(self.secret)


def drawn(prefix: str) -> Drawn:
    """A fresh id, and bytes that nobody can guess."""
    return Drawn(new(prefix), secrets.token_bytes(SECRET_BYTES))


def prefix(text: str) -> str:
    """What kind of id it is, as ``PREFIXES`` says; empty where it is none."""
    found, _, rest = text.partition("_")
    return found if rest and found in PREFIXES else ""


def _from_the_system() -> int:
    """128 bits that nobody else draws: the moment, then chance."""
    # Only the id's sort key: no decision ever reads this time.  check-sql-now: allow
    milliseconds = time.time_ns() // 1_000_000
    return (milliseconds << 80) | secrets.randbits(80)


_draw: Callable[[], int] = _from_the_system


def draw_from(source: Callable[[], int] | None) -> None:
    """Only for the simulation, whose seed decides ids, too; None draws from the system again."""
    global _draw  # noqa: PLW0603  # one source a process
    _draw = source or _from_the_system


def reservation(tenant: str, identity: str, idempotency_key: str) -> ReservationId:
    """The draft id of R6: the same tenant, identity and key always reach the same row."""
    return ReservationId(f"rsv_{_digest(tenant, identity, idempotency_key)}")


def series(first: str) -> SeriesId:
    """The id of the series whose first occurrence is this reservation."""
    return SeriesId(f"ser_{first.removeprefix('rsv_')}")


def occurrence(series_id: str, start_ms: int) -> ReservationId:
    """The id of an occurrence of a series: whoever books it, however often, it is one row."""
    return ReservationId(f"rsv_{_digest(series_id, str(start_ms))}")


def _digest(*parts: str) -> str:
    # Each part carries its length, so no two different tuples concatenate to the same text.
    text = "".join(f"{len(part)}:{part}" for part in parts)
    digest = hashlib.sha256(text.encode()).digest()
    return _letters(digest)


def _letters(data: bytes) -> str:
    return base64.b32encode(data).decode().rstrip("=").lower()
