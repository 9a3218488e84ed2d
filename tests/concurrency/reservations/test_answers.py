"""An answer shows one instant, whatever commits while it is read."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection

from bettercompute.iam.callers import Caller
from bettercompute.wire import reservations as wire
from reservations import ending, queries, waiting
from tests.support import cast, make, sessions

pytestmark = pytest.mark.django_db(transaction=True)

READS: dict[str, Callable[[Caller, str], wire.Reservation]] = {
    "get": queries.get,
    "list": lambda caller, _: queries.page(caller, queries.Filters()).items[0],
    "poll of a wait": lambda _, key: waiting.latest(key),
    "page of the console": lambda caller, key: queries.look(caller, key)[1],
}


@contextmanager
def after_its_first_row(change: Callable[[], Any]) -> Iterator[None]:
    """Let somebody else commit a change as soon as a statement has read the reservation."""
    done: list[bool] = []

    def hook(execute: Any, sql: Any, params: Any, many: bool, context: Any) -> Any:
        answer = execute(sql, params, many, context)
        if not done and 'FROM "reservations"' in str(sql):
            done.append(True)
            with sessions.opened("rival") as (rival,):
                rival.run(change)
        return answer

    with connection.execute_wrapper(hook):
        yield
    assert done, "nothing was read"


@pytest.mark.rule("C2")
@pytest.mark.parametrize("read", READS)
def test_a_version_is_shown_with_its_own_allocations(read: str) -> None:
    alice = cast.caller("alice")
    made = make.reservation(alice, make.pool(nodes=1, gpus=1))
    with after_its_first_row(lambda: ending.release(alice, reservation_id=made.pk)):
        shown = READS[read](alice, made.pk)
    assert (shown.version, shown.state) == (2, "placed")
    assert [part.state for part in shown.allocations] == ["placed"]
    assert READS[read](alice, made.pk).state == "released"
