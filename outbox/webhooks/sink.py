"""From events to deliveries: one row for each event and endpoint, written with the cursor (C22).

So no event is left out for an endpoint, and none is sent twice for want of knowing that it was;
whoever dies between the two wrote neither.
"""

from collections.abc import Sequence

from bettercompute import sql
from outbox import queries
from outbox.reader import EventRow
from outbox.webhooks import courier

SINK = sql.load(__package__, "sink")

ROWS_MAX = 10_000  # of one transaction, which has five seconds


class Webhooks:
    """The queue that ``bettercompute.wiring`` names."""

    def batch_max(self) -> int:
        """As many events as make a bounded number of rows, were every endpoint to want each."""
        row = SINK.one("enabled")
        assert row is not None
        enabled: int = row[0]
        return max(1, ROWS_MAX // max(1, enabled))

    def enqueue(self, events: Sequence[EventRow]) -> None:
        """Write down what is to be sent, in the transaction that advances the cursor."""
        made = SINK.run(
            "enqueue",
            ids=[event.id for event in events],
            types=[event.type for event in events],
            tenants=[event.tenant_id for event in events],
            subjects=[event.subject for event in events],
            times=[event.time for event in events],
            bodies=[queries.as_json(event) for event in events],
            origins=[event.origin for event in events],
        )
        if made:
            courier.wake_on_commit()


QUEUE = Webhooks()
