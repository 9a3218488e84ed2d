"""Seals: what was entered cannot be changed or taken out again without a trace.

Each entry carries an HMAC of its own, made where it is written; nothing is shared between writers,
so none waits for another. What only *more* entries could tell, that one is missing, a seal tells:
once a minute the holder of a lease seals what is new, and each seal covers the one before. A seal's
digest is also logged, so whoever keeps logs elsewhere can tell that the last links were cut off.

Whoever can write the tables and knows the application's secret can forge all of it; of that only
the logged digests tell.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta

import structlog
from django.conf import settings

from bettercompute import clock, sql
from bettercompute.audit import keys

log = structlog.get_logger(__name__)

SEALS = sql.load(__package__, "seals")

_RUN = re.compile(r"\[(-?\d+),(-?\d+)\)")
ENTRIES_PER_SEAL_MAX = 5_000
SEALS_PER_TURN_MAX = 20
FORGOTTEN_PER_TURN_MAX = 200

Fence = Callable[[], AbstractContextManager[object]]


def seal(fence: Fence) -> int:
    """Seal what is new; answers how many entries that is."""
    total = 0
    for _ in range(SEALS_PER_TURN_MAX):
        with fence():
            sealed = _seal_next()
        total += sealed
        if sealed < ENTRIES_PER_SEAL_MAX:
            break
    return total


def forget(fence: Fence) -> int:
    """Remove the entries of seals that are older than they are kept; answers how many."""
    age = timedelta(days=settings.AUDIT_RETENTION_DAYS)
    total = 0
    for _ in range(FORGOTTEN_PER_TURN_MAX):
        with fence():
            (removed,) = SEALS.one("forget", seconds=age.total_seconds()) or (None,)
        if removed is None:
            break
        total += removed
    if total:
        log.info("audit entries removed", entries=total, older_than_days=age.days)
    return total


def root(members: Iterable[tuple[int, bytes]]) -> bytes:
    """What stands for a seal's entries: their sequence numbers and HMACs."""
    digest = hashlib.sha256()
    for seq, mac in members:
        digest.update(seq.to_bytes(8, "big") + mac)
    return digest.digest()


def digest(
    key: bytes, *, number: int, before: bytes, sealed_at: datetime, count: int, root: bytes
) -> bytes:
    """A link of the chain."""
    told = [number, before.hex(), clock.to_ms(sealed_at), count, root.hex()]
    return keys.mac(key, json.dumps(told).encode())


def ranges(numbers: Sequence[int]) -> str:
    """Ascending whole numbers as PostgreSQL writes a multirange."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number:
            runs[-1] = (runs[-1][0], number + 1)
        else:
            runs.append((number, number + 1))
    return "{" + ",".join(f"[{start},{end})" for start, end in runs) + "}"


def covered(members: str) -> tuple[int, int]:
    """Of a multirange: how many whole numbers it has, and what is behind the last of them.

    One without an end has more than any seal.
    """
    runs = [(int(start), int(end)) for start, end in _RUN.findall(members)]
    if _RUN.sub("", members).strip("{,}"):
        return -1, -1
    return sum(end - start for start, end in runs), max((end for _, end in runs), default=0)


def _seal_next() -> int:
    rows = SEALS.all("unsealed", limit=ENTRIES_PER_SEAL_MAX)
    if not rows:
        return 0
    number, before, upto = SEALS.one("last") or (0, b"", 0)
    members = [(seq, bytes(mac)) for seq, mac, _ in rows]
    key_id, key = keys.newest()
    sealed_at = clock.now()
    top = root(members)
    link = digest(
        key,
        number=number + 1,
        before=bytes(before),
        sealed_at=sealed_at,
        count=len(members),
        root=top,
    )
    SEALS.run(
        "seal",
        number=number + 1,
        sealed_at=sealed_at,
        members=ranges([seq for seq, _ in members]),
        count=len(members),
        upto=max(upto, members[-1][0] + 1),
        root=top,
        key_id=key_id,
        digest=link,
    )
    log.info("audit sealed", seal=number + 1, entries=len(members), digest=link.hex())
    return len(members)
