"""What follows from a pool's hardware alone: read once, kept while the hardware is the same.

A create asks for it each time, and on a large pool it is a look at every device. The pool's row is
read anyway, and with it the number of its hardware (``pool_hardware``): what is kept for a number
can never be stale, as any change ends the number in the transaction that makes it.
"""

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import TypeVar

from django.db import connection

from bettercompute import sql
from nodes.resources import MEMORY_GIB, VCPU
from pools.catalogue import PoolAccess

HARDWARE = sql.load(__package__, "hardware")

POOLS_MAX = 256

_Found = TypeVar("_Found")


def _kept(read: Callable[[str], _Found]) -> Callable[[PoolAccess], _Found]:
    """``read`` for a pool, once for each number of its hardware.

    A transaction may see what it has not committed, under the number from before: then nothing is
    kept and nothing kept is used.
    """
    keep = lru_cache(maxsize=POOLS_MAX)(lambda pool_id, hardware: read(pool_id))

    def answer(access: PoolAccess) -> _Found:
        if access.hardware is None or connection.in_atomic_block:
            return read(access.pool_id)
        return keep(access.pool_id, access.hardware)

    return answer


@_kept
def models(pool_id: str) -> tuple[str, ...]:
    """The models of its bookable devices."""
    return tuple(model for (model,) in HARDWARE.all("models", pool_id=pool_id))


@_kept
def smallest_shares(pool_id: str) -> Mapping[str, Fraction]:
    """Of each host resource, the least that any of its hosts can give a GPU (R30)."""
    rows = HARDWARE.all("smallest_shares", pool_id=pool_id, resources=[MEMORY_GIB, VCPU])
    return {resource: Fraction(amount, gpus) for resource, amount, gpus in rows}
