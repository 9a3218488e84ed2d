"""Leases: a claim on a role, with a time to live and an epoch that fences (C29-C34).

What a lease promises
    At any instant at most one owner holds a name, by the database's clock. Holding it is no
    permission to write for ever: every write goes through ``fencing.fenced(lease)``, which checks
    the term in the writing transaction.
Terms
    A term is (name, owner, epoch). Renewing is taking again, and keeps it; anybody else's takeover,
    and giving up, end it. A holder whose lease lapsed unnoticed and that nobody replaced goes on in
    the same term.
Unset means leader
    There is no switch: every process takes what it can. A second control plane is the same command
    started again (C34).
An unreachable database
    is no evidence that somebody else leads. ``take`` then raises, and the caller keeps what it has:
    the fence decides at the next write (C33).
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from bettercompute import sql
from bettercompute.coordination import owner as this_process

LEASES = sql.load(__package__, "leases")

TTL_SECONDS = 15  # shards, pools, sites, singletons (C31); gateways say 20
RENEW_AFTER_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Lease:
    """One term of one owner."""

    name: str
    owner: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Holder:
    """A lease that is held, for people."""

    name: str
    owner: str
    epoch: int
    note: str
    acquired_at: datetime
    expires_at: datetime


def take(name: str, *, ttl_seconds: float = TTL_SECONDS, owner: str | None = None) -> Lease | None:
    """Take or renew a lease; None while somebody else holds it."""
    taken = take_many([name], ttl_seconds=ttl_seconds, owner=owner)
    return taken[0] if taken else None


def take_many(
    names: Iterable[str], *, ttl_seconds: float = TTL_SECONDS, owner: str | None = None
) -> list[Lease]:
    """Take or renew several leases in one statement; answers those that are ours now."""
    rows = LEASES.all(
        "take",
        names=sorted(names),
        owner=owner or this_process.OWNER,
        ttl=ttl_seconds,
        note=this_process.note(),
    )
    return [Lease(*row) for row in rows]


def give_up(lease: Lease) -> bool:
    """End our term at once, so that nobody waits for it to lapse; False where it had ended."""
    return LEASES.run("give_up", name=lease.name, owner=lease.owner, epoch=lease.epoch) == 1


@contextmanager
def term(name: str) -> Iterator[Lease | None]:
    """A lease for as long as the block runs; None while somebody else holds it.

    Where the block raises, the term lapses by itself, or goes on when we take it again.
    """
    lease = take(name)
    yield lease
    if lease is not None:
        give_up(lease)


def end_terms_of(owner: str) -> bool:
    """End every term of an owner that is dead; False where a transaction of its has yet to end."""
    LEASES.run("end_terms_of", owner=owner)
    row = LEASES.one("terms_of", owner=owner)
    assert row is not None
    return bool(row[0] == 0)


def expire_all() -> int:
    """End every term; only where all other processes are known to be stopped (C34)."""
    return LEASES.run("expire_all")


def current(name: str) -> Lease | None:
    """The term in force, whoever holds it."""
    row = LEASES.one("current", name=name)
    return None if row is None else Lease(*row)


def free(names: Iterable[str], *, but: str = "") -> list[str]:
    """Of these names, those that nobody holds, or nobody ``but`` this owner."""
    return [row[0] for row in LEASES.all("free", names=sorted(names), but=but)]


def holders() -> list[Holder]:
    """Every lease in force, by name."""
    return [Holder(*row) for row in LEASES.all("holders")]
