"""What metrics say of reservations, from their rows."""

import pytest

from reservations import gauges
from tests.support import cast, make

pytestmark = pytest.mark.django_db(transaction=True)


def late() -> dict[tuple[str, ...], float]:
    (found,) = gauges.late()
    return found.samples


def test_nothing_is_late_while_a_window_goes_on(clock) -> None:
    make.active(cast.caller("alice"), make.pool(nodes=1), duration="2h")
    clock.advance("1h")
    assert late() == {("start",): 0.0, ("end",): 0.0}


def test_an_end_that_nobody_got_to_is_late(clock) -> None:
    make.active(cast.caller("alice"), make.pool(nodes=1), duration="2h")
    clock.advance("2h3m")
    assert late() == {("start",): 0.0, ("end",): 180.0}
