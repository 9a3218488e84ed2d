"""What a subscriber takes of what the one reader of its process hands it (A7)."""

from datetime import UTC, datetime

import pytest

from bettercompute.iam.standing import Credential
from outbox.filters import Filters
from outbox.positions import Position
from outbox.reader import EventRow
from outbox.streaming.subscribers import Arrival, Subscriber

pytestmark = pytest.mark.rule("A7")


def arrival(seq: int) -> Arrival:
    row = EventRow(
        position=Position(10, seq),
        id=f"evt_{seq}",
        type="reservation.active",
        tenant_id="ten_a",
        subject="reservation/a",
        data={},
        time=datetime(2026, 3, 2, tzinfo=UTC),
    )
    return Arrival(row)


def test_what_it_has_read_for_itself_it_does_not_take_again() -> None:
    """It may be further than the reader when it joins: its opening read later than that."""
    subscriber = Subscriber(
        Credential("usr_a", "ten_a"), Filters(tenant_id="ten_a"), Position(10, 5), behind=False
    )
    for seq in (4, 5, 6):
        subscriber.offer(arrival(seq))
    taken = subscriber.take()
    assert taken is not None
    assert taken[0] == Position(10, 6)
    assert subscriber.take() is None
