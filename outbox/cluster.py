"""Transaction ids belong to one database cluster (C21).

After a dump and restore they start over, and new events would sort before old ones: a reader would
skip them without a sign. So the cluster's identity is stored, a dispatcher stops on a mismatch, and
``manage.py outbox_rebase`` rewrites what the old cluster wrote.
"""

from django.db import transaction

from bettercompute import sql

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

    Everything already written gets transaction id 0 and is numbered in the order it had. Only with
    the control plane stopped: positions that clients of the event stream hold are void afterwards.
    """
    if is_ours():
        return False
    with transaction.atomic(durable=True):
        for statement in (
            "lock",
            "place_cursors",
            "number_events",
            "turn_events",
            "number_changes",
            "turn_changes",
            "adopt",
        ):
            CLUSTER.run(statement)
    return True
