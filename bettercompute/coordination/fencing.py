"""Transactions that only the holder of a lease can commit (C30)."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from django.db import transaction

from bettercompute.coordination import leases
from bettercompute.coordination.leases import Lease

TRANSACTION_MS_MAX = 5_000  # a takeover takes at most the time to live plus this

# What a reconciler is given: ``with fence():`` around each of its write transactions.
Fence = Callable[[], AbstractContextManager[object]]


class LeaseLost(Exception):
    """Somebody else is in charge now, or nobody renewed in time; nothing was written."""


@contextmanager
def fenced(lease: Lease) -> Iterator[None]:
    """Run one transaction that commits only while ``lease`` is in force.

    One at a time per lease: overlapping ones starve the renewal, which waits for their row lock.

    Raises:
        LeaseLost: the term has ended; the transaction did nothing.
    """
    with transaction.atomic(durable=True):
        # The first statement, so that nothing is read before the term is certain.
        if not in_force(lease):
            raise LeaseLost(f"{lease.name} at epoch {lease.epoch} is not ours any more")
        yield


def in_force(lease: Lease) -> bool:
    """Whether this term goes on, and stays so until the transaction ends.

    A fenced transaction may ask for a second lease, right behind its fence: a shard's comes first.
    """
    row = leases.LEASES.one(
        "fence",
        name=lease.name,
        owner=lease.owner,
        epoch=lease.epoch,
        timeout_ms=TRANSACTION_MS_MAX,
    )
    return row is not None
