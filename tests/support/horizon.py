"""The snapshot horizon is the whole cluster's: a test of it waits for writers elsewhere (C21, C24).

A transaction in another database, such as that of a test run beside this one, holds every reader of
events back. Tests that expect to read what was committed wait until none is older.
"""

import threading
import time

from django.db import connection

WAIT_SECONDS_MAX = 60.0

_ELSEWHERE = """
SELECT count(*)
  FROM pg_stat_activity
 WHERE datname <> current_database()
   AND backend_xid IS NOT NULL
   AND age(backend_xid) >= age((%s::text::xid8)::xid)
"""
_NEWEST = "SELECT coalesce(max(txid), '0'::xid8)::text FROM outbox"


def let_writers_elsewhere_end(txid: str | None = None) -> None:
    """Wait until no other database has a transaction older than our events (or than ``txid``)."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    with connection.cursor() as cursor:
        if txid is None:
            cursor.execute(_NEWEST)
            (txid,) = cursor.fetchone()
        while time.monotonic() < deadline:
            cursor.execute(_ELSEWHERE, [txid])
            if cursor.fetchone() == (0,):
                return
            threading.Event().wait(0.02)
    raise AssertionError("another database of this cluster has had a transaction open for a minute")
