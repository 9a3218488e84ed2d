"""Rivals for a host's CPUs (C12), on connections of their own."""

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models import Sum

from bettercompute import clock
from nodes import checks, resources
from nodes.models import NodeResource, ResourceBooking
from tests.support import sessions, supply

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("C12")]

# The peak in the statement that takes the lock: what C12 must not be.
ONE_STATEMENT = """
INSERT INTO resource_bookings (node_id, resource, amount, during, allocation_id)
SELECT locked.node_id, locked.resource, 60, asked.during, 'alloc_rival'
FROM (
    SELECT node_id, resource, allocatable, ratio
    FROM node_resources
    WHERE node_id = %(node_id)s AND resource = 'vcpu'
    FOR NO KEY UPDATE
) AS locked
CROSS JOIN (
    SELECT tstzrange(%(start)s::timestamptz, %(end)s::timestamptz, '[)') AS during
) AS asked
WHERE resource_peak(locked.node_id, locked.resource, asked.during) + 60
    <= floor(locked.allocatable * locked.ratio)
"""


def _book(allocation_id: str, *node_ids: str, vcpu: int = 60) -> Callable[[], bool]:
    window = supply.window()
    claims = [(node_id, allocation_id, {"vcpu": vcpu}) for node_id in node_ids]
    return lambda: resources.book(node_amounts=claims, **window)


def _booked(node_id: str) -> int:
    return ResourceBooking.objects.filter(node_id=node_id).aggregate(sum=Sum("amount"))["sum"]


def test_a_rival_waits_for_the_rows_and_then_sees_what_was_booked() -> None:
    node = supply.node(vcpu=102)
    with sessions.opened("holder", "rival") as (holder, rival):
        holder.begin()
        assert holder.run(_book("alloc_holder", node.pk))
        rival.begin()
        attempt = rival.start(_book("alloc_rival", node.pk))
        attempt.must_block()
        holder.commit()
        assert attempt.result() is False
    assert _booked(node.pk) == 60


def test_the_peak_in_the_locking_statement_overbooks() -> None:
    """The negative control: it waits for the lock, and decides by what it saw before the wait."""
    node = supply.node(vcpu=102)
    window = supply.window()

    def rival_books() -> int:
        with connection.cursor() as cursor:
            cursor.execute(ONE_STATEMENT, {"node_id": node.pk, **window})
            return cursor.rowcount

    with sessions.opened("holder", "rival") as (holder, rival):
        holder.begin()
        assert holder.run(_book("alloc_holder", node.pk))
        attempt = rival.start(rival_books)
        attempt.must_block()
        holder.commit()
        assert attempt.result() == 1
    assert _booked(node.pk) == 120, "of 100 there are"
    # The self-check finds it, and the CHECK, which is only the backstop, refuses the count.
    assert [found.check for found in checks.miscounted_resources()] == ["resources.allocated"]
    with pytest.raises(IntegrityError, match="node_resource_within_ceiling"):
        resources.RESOURCES.run("recount_after_booking", node_ids=[node.pk], resources=["vcpu"])


def test_of_many_at_once_as_many_fit_as_there_is_room() -> None:
    node = supply.node(vcpu=102)
    racers = [_in_transaction(_book(f"alloc_{number}", node.pk, vcpu=30)) for number in range(8)]
    assert sessions.race(*racers).count(True) == 3
    assert _booked(node.pk) == 90
    assert NodeResource.objects.get(node=node, resource="vcpu").allocated == 90
    assert checks.miscounted_resources() == []


def test_gangs_that_name_their_nodes_in_opposite_order_do_not_deadlock() -> None:
    one, other = supply.node(vcpu=102), supply.node(vcpu=102)
    with sessions.opened("holder", "rival") as (holder, rival):
        holder.begin()
        assert holder.run(_book("alloc_holder", other.pk, one.pk))
        rival.begin()
        attempt = rival.start(_book("alloc_rival", one.pk, other.pk))
        attempt.must_block()
        holder.commit()
        assert attempt.result() is False


def test_a_host_that_shrinks_meanwhile_admits_nothing_beyond_what_is_left() -> None:
    node = supply.node(vcpu=102)
    with sessions.opened("host", "rival") as (host, rival):
        host.begin()
        host.run(lambda: resources.set_allocatable(node.pk, {"vcpu": 50}))
        rival.begin()
        attempt = rival.start(_book("alloc_rival", node.pk))
        attempt.must_block()
        host.commit()
        assert attempt.result() is False


def test_a_rival_that_waited_for_a_release_fits() -> None:
    node = supply.node(vcpu=102)
    assert _book("alloc_old", node.pk, vcpu=100)()
    with sessions.opened("ender", "rival") as (ender, rival):
        ender.begin()
        ender.run(lambda: resources.free(["alloc_old"]))
        rival.begin()
        attempt = rival.start(_book("alloc_rival", node.pk))
        attempt.must_block()
        ender.commit()
        assert attempt.result() is True
        rival.commit()
    assert NodeResource.objects.get(node=node, resource="vcpu").allocated == 60


def _in_transaction(step: Callable[[], bool]) -> Callable[[], bool]:
    def run() -> bool:
        with transaction.atomic():
            return step()

    return run


@pytest.fixture
def real_clock() -> Iterator[None]:
    """The database's own: a transaction's time is older than that of those it waited for."""
    start = clock.now()
    clock.use_real_clock()
    yield
    clock.use_sim_clock(start)


@pytest.mark.usefixtures("real_clock")
def test_who_waited_does_not_count_what_ended_while_it_waited() -> None:
    node = supply.node(vcpu=202)
    for allocation_id in ("alloc_first", "alloc_second"):
        start = clock.now() - timedelta(hours=1)
        claims = [(node.pk, allocation_id, {"vcpu": 60})]
        assert resources.book(node_amounts=claims, start=start, end=start + timedelta(hours=2))
    with sessions.opened("first", "second") as (first, second):
        second.begin()
        second.sql("SELECT pg_sleep(0.01)")  # so that its time is older by more than one ms
        first.run(lambda: resources.free(["alloc_first"]))
        second.run(lambda: resources.free(["alloc_second"]))
        second.commit()
    assert NodeResource.objects.get(node=node, resource="vcpu").allocated == 0
    assert checks.miscounted_resources() == []
