"""A pool's calendar: whose time it is, as one tenant may see it."""

from datetime import timedelta

import pytest

from bettercompute.pages.timeline import Whose
from bettercompute.wire.reservations import ExtendRequest
from reservations.extending import extension
from reservations.pages import calendar
from tests.support import cast, make

pytestmark = pytest.mark.django_db(transaction=True)

HOUR = timedelta(hours=1)


@pytest.mark.rule("R33")
def test_what_was_extended_is_one_booking_to_its_end_whatever_window_is_looked_at(clock):
    alice = cast.caller("alice")
    pool = make.pool()
    reservation = make.active(alice, pool, gpus=2, duration="1h")
    for _ in range(2):
        extension.extend(
            alice,
            ExtendRequest(tenant_id=alice.tenant_id, by="1h"),
            reservation_id=reservation.pk,
            idempotency_key=make.key(),
        )
    begin, end = reservation.starts_at, reservation.starts_at + 3 * HOUR

    for since, until in ((begin, end), (begin, begin + HOUR), (end - HOUR, end)):
        found = calendar.bookings(alice, pool.pk, start=since, end=until)
        assert [(each.start, each.end, each.whose) for each in found] == [
            (begin, end, Whose.MINE)
        ] * 2
    assert calendar.bookings(alice, pool.pk, start=end, end=end + HOUR) == []
