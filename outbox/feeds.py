"""Feeds: rows that are read in the order of their transactions, so that none is ever missed.

There are two, the events (``outbox.reader``) and the authorization feed (``outbox.authz``), and one
kind of position for both (C23). The rules of reading (C21):

- Only rows of transactions older than every one still running are read, in the order
  ``(txid, seq)``. What commits later sorts later: nothing appears behind a position.
- The price is that a transaction left open stalls every reader (C24); ``dispatch.stall`` names it.
- A position is good if the row that it names is still there. If not, it is from before a restore,
  from commits that a failover lost, or older than retention: whoever brings it is told so, and has
  to read the whole state again.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from bettercompute import sql
from outbox import cluster, positions
from outbox.positions import Position


class Placed(Protocol):
    """A row of a feed."""

    @property
    def position(self) -> Position:
        """Where it stands."""


R = TypeVar("R", bound=Placed)


@dataclass(frozen=True, slots=True)
class Resumed:
    """Where a reader goes on.

    After a ``reset`` it is behind everything readable, and rows are missing before it: the reader
    says so, or reads the whole state, before it follows from here.
    """

    position: Position
    reset: bool


@dataclass(frozen=True, slots=True)
class Page(Generic[R]):
    """The rows that were asked for, and where to go on: behind them, or behind all there was."""

    rows: list[R]
    position: Position


@dataclass(frozen=True, slots=True)
class Feed(Generic[R]):
    """One feed: its statements ``read``, ``end`` and ``knows``, and what a row of it is."""

    statements: sql.Statements
    row: Callable[[sql.Row], R]

    def read(
        self,
        after: Position,
        *,
        limit: int,
        until: Position | None = None,
        types: Collection[str] | None = None,
        tenant_id: str | None = None,
        subject: str | None = None,
    ) -> list[R]:
        """The next rows after a position, in order; of some types or one tenant where asked.

        Only events have a subject.
        """
        rows = self.statements.all(
            "read",
            txid=str(after.txid),
            seq=after.seq,
            until_txid=None if until is None else str(until.txid),
            until_seq=None if until is None else until.seq,
            limit=limit,
            types=None if types is None else sorted(types),
            tenant_id=tenant_id,
            subject=subject,
        )
        return [self.row(row) for row in rows]

    def end(self) -> Position:
        """The position behind everything readable now: where a new subscriber starts."""
        row = self.statements.one("end")
        return positions.START if row is None else Position(*row)

    def resume(self, last: str | None) -> Resumed:
        """Where a reader goes on that has read up to ``last``, or that comes for the first time.

        Who has read nothing yet (``0-0``) begins with the first row that is kept.

        Raises:
            InvalidInput: it is no position at all.
            ForeignCluster: the feed was restored from another cluster and is not rebased yet.
        """
        cluster.verify()
        if last is None:
            return Resumed(self.end(), reset=False)
        position = positions.parse(last)
        if position == positions.START:
            return Resumed(position, reset=False)
        known = self.statements.one("knows", txid=str(position.txid), seq=position.seq)
        return Resumed(position, reset=False) if known else Resumed(self.end(), reset=True)

    def follow(
        self,
        after: Position,
        *,
        limit: int,
        types: Collection[str] | None = None,
        tenant_id: str | None = None,
        subject: str | None = None,
    ) -> Page[R]:
        """The next rows after a position, and where to go on.

        Rows that the filters leave out are passed for good: one who waits for a rare event does not
        search the same rows at every look.

        Raises:
            ForeignCluster: the feed was restored from another cluster and is not rebased yet.
        """
        cluster.verify()
        end = self.end()  # nothing appears before it any more, so what follows needs no snapshot
        rows = self.read(
            after, until=end, limit=limit, types=types, tenant_id=tenant_id, subject=subject
        )
        full = len(rows) == limit
        return Page(rows, rows[-1].position if full else max(after, end))
