"""Transaction ids belong to one database cluster (C21).

After a dump and restore they start over, and new events would sort before old ones: a reader would
skip them without a sign. So the cluster's identity is stored, a dispatcher stops on a mismatch, and
``manage.py outbox_rebase`` rewrites what the old cluster wrote.
"""

from django.db import transaction

from bettercompute import sql
from bettercompute.acts import NOTHING
from bettercompute.audit import entries

CLUSTER = sql.load(__package__, "cluster")


class ForeignCluster(Exception):
    """The outbox was restored from another database cluster; run `manage.py outbox_rebase`."""

    def __init__(self) -> None:
        super().__init__(self.__doc__)


def is_ours() -> bool:
    """Whether the rows' transaction ids are this cluster's."""
    row = CLUSTER.one("compare")
    if row is None:
        CLUSTER.run("remember")
        return True
    return bool(row[0] == row[1])


def verify() -> None:
    """Raise unless the rows' transaction ids are this cluster's.

    Raises:
        ForeignCluster: they are another's.
    """
    if not is_ours():
        raise ForeignCluster


def rebase() -> bool:
    """Make every old event sort before every new one and move the cursors along; False if ours.

    What the old cluster wrote gets transaction 0 and new numbers in the order it had, and so do the
    entries of the authorization feed. What this cluster has written meanwhile stays as it is, and
    is delivered after all that. Positions that readers outside hold name rows that are no longer
    there, which is how they are recognised.
    """
    if is_ours():
        return False
    with transaction.atomic(durable=True):
        for statement in ("unbound", "lock", "rebase_events", "rebase_changes", "adopt"):
            CLUSTER.run(statement)
        entries.record("compute:events:rebase", NOTHING, tenant_id="")
    return True
