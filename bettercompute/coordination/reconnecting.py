"""Going on after the database was away."""

from django.db import connection


def drop_if_broken() -> None:
    """Let go of a broken connection, so that the next statement opens a new one."""
    # Django would also drop a sound connection in a transaction; that is its owner's to end.
    if not connection.in_atomic_block:
        connection.close_if_unusable_or_obsolete()
