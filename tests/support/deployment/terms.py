"""Which term committed what: every fenced transaction of a worker leaves a row of its own in it.

Of two terms of one lease, everything that the earlier one committed was written before anything of
the later one. That is what a fence is for; here it is read from what was committed.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from django.db import DatabaseError, connection

from bettercompute.coordination import fencing
from bettercompute.coordination.leases import Lease

# The server's own clock, since an order is wanted and no business time.
_DEFINE = """
CREATE TABLE IF NOT EXISTS fenced_writes (
    lease text NOT NULL,
    owner text NOT NULL,
    epoch bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
)
"""
_WRITE = "INSERT INTO fenced_writes (lease, owner, epoch) VALUES (%s, %s, %s)"

#: How many fenced transactions each owner committed.
BY_OWNER = "SELECT owner, count(*) FROM fenced_writes GROUP BY owner"

#: Leases of which two terms committed across each other, or of which a term had two owners.
ACROSS = """
WITH terms AS (
    SELECT lease, epoch, min(owner) AS first_owner, max(owner) AS last_owner,
           min(at) AS first_at, max(at) AS last_at
      FROM fenced_writes
     GROUP BY lease, epoch
)
SELECT format('%s: epoch %s was of %s and %s', lease, epoch, first_owner, last_owner)
  FROM terms
 WHERE first_owner <> last_owner
 UNION ALL
SELECT format('%s: epoch %s wrote %s after epoch %s had begun',
              old.lease, old.epoch, old.last_at - new.first_at, new.epoch)
  FROM terms AS old
  JOIN terms AS new ON new.lease = old.lease AND new.epoch > old.epoch
 WHERE old.last_at > new.first_at
"""


def record() -> None:
    """Have every fenced transaction of this process leave its row."""
    with contextlib.suppress(DatabaseError), connection.cursor() as cursor:
        cursor.execute(_DEFINE)  # another worker may do so at this moment
    connection.close()
    fencing.fenced = _recording(fencing.fenced)


def _recording(
    fenced: Callable[[Lease], AbstractContextManager[None]],
) -> Callable[[Lease], AbstractContextManager[None]]:
    @contextlib.contextmanager
    def recorded(lease: Lease) -> Iterator[None]:
        with fenced(lease):
            yield
            # At the end: the last moment before the commit at which anything can be written.
            with connection.cursor() as cursor:
                cursor.execute(_WRITE, [lease.name, lease.owner, lease.epoch])

    return recorded
