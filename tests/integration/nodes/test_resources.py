"""Host resources over time (C12), one transaction at a time."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction

from nodes import checks, resources
from nodes.models import NodeResource, ResourceBooking
from tests.conftest import SimulatedClock
from tests.support import supply

pytestmark = [pytest.mark.django_db, pytest.mark.rule("C12")]


def _book(node_id: str, allocation_id: str, vcpu: int, **window: object) -> bool:
    return resources.book(
        node_amounts=[(node_id, allocation_id, {"vcpu": vcpu})],
        **window,  # type: ignore[arg-type]
    )


def _row(node_id: str, resource: str = "vcpu") -> NodeResource:
    return NodeResource.objects.get(node_id=node_id, resource=resource)


def test_amounts_fit_up_to_what_the_host_gives_and_no_further() -> None:
    node = supply.node(vcpu=102)  # 100 after the host's reserve
    assert _book(node.pk, "alloc_a", 60, **supply.window())
    assert not _book(node.pk, "alloc_b", 41, **supply.window())
    assert _book(node.pk, "alloc_c", 40, **supply.window())
    assert _row(node.pk).allocated == 100


def test_next_mondays_booking_does_not_take_todays_cpus() -> None:
    node = supply.node(vcpu=102)
    assert _book(node.pk, "alloc_monday", 100, **supply.window(timedelta(days=7)))
    assert _book(node.pk, "alloc_today", 100, **supply.window())
    assert _row(node.pk).allocated == 100
    assert not _book(node.pk, "alloc_across", 1, **supply.window(hours=24 * 8))


@pytest.mark.case(14)
def test_the_peak_counts_bookings_that_overlap_each_other_not_just_the_window() -> None:
    node = supply.node(vcpu=102)
    # Two bookings of 60 that follow each other: together 120, at their peak 60.
    assert _book(node.pk, "alloc_a", 60, **supply.window(hours=1))
    assert _book(node.pk, "alloc_b", 60, **supply.window(timedelta(hours=1), hours=1))
    assert _book(node.pk, "alloc_c", 40, **supply.window(hours=2))
    assert not _book(node.pk, "alloc_d", 1, **supply.window(hours=2))
    assert _row(node.pk).allocated == 100


def test_claims_are_booked_all_or_none() -> None:
    roomy, tight = supply.node(vcpu=102), supply.node(vcpu=12)
    booked = resources.book(
        node_amounts=[
            (roomy.pk, "alloc_a", {"vcpu": 20, "memoryGiB": 100}),
            (tight.pk, "alloc_b", {"vcpu": 20, "memoryGiB": 100}),
        ],
        **supply.window(),
    )
    assert not booked
    assert not ResourceBooking.objects.exists()
    assert _row(roomy.pk).allocated == 0


def test_two_allocations_on_one_node_are_counted_together() -> None:
    node = supply.node(vcpu=102)
    claims = [(node.pk, "alloc_a", {"vcpu": 60}), (node.pk, "alloc_b", {"vcpu": 60})]
    assert not resources.book(node_amounts=claims, **supply.window())


def test_a_resource_the_node_has_no_row_of_gives_nothing() -> None:
    node = supply.node()
    claims = [(node.pk, "alloc_a", {"hugepages1Gi": 1})]
    assert not resources.book(node_amounts=claims, **supply.window())


def test_claiming_nothing_always_fits() -> None:
    assert resources.book(node_amounts=[("node_none", "alloc_a", {"vcpu": 0})], **supply.window())


def test_the_statements_of_a_placement_do_not_grow_with_its_nodes(
    django_assert_num_queries: object,
) -> None:
    nodes = [supply.node() for _ in range(5)]
    claims = [
        (node.pk, f"alloc_{node.name}", {"vcpu": 24, "memoryGiB": 128, "hugepages1Gi": 0})
        for node in nodes
    ]
    window = supply.window()
    with django_assert_num_queries(3):  # type: ignore[operator]
        assert resources.book(node_amounts=claims, **window)


def test_freeing_gives_back_what_is_left_of_the_window(clock: SimulatedClock) -> None:
    node = supply.node(vcpu=102)
    _book(node.pk, "alloc_a", 100, **supply.window(hours=4))
    clock.advance("1h")
    resources.free(["alloc_a"])
    assert _row(node.pk).allocated == 0
    assert _book(node.pk, "alloc_b", 100, **supply.window(hours=1))
    booking = ResourceBooking.objects.get(allocation_id="alloc_a")
    assert booking.during.upper == clock.now()


def test_freeing_after_the_natural_end_counts_again(clock: SimulatedClock) -> None:
    node = supply.node(vcpu=102)
    _book(node.pk, "alloc_a", 100, **supply.window(hours=1))
    clock.advance("2h")
    assert _row(node.pk).allocated == 100, "nobody has counted since"
    resources.free(["alloc_a"])
    assert _row(node.pk).allocated == 0


@pytest.mark.case(25)
def test_a_host_that_shrinks_under_its_bookings_is_reported_and_admits_nothing() -> None:
    node = supply.node(vcpu=102)
    _book(node.pk, "alloc_a", 60, **supply.window(hours=2))
    _book(node.pk, "alloc_b", 30, **supply.window(hours=2))

    change = resources.set_allocatable(node.pk, {"vcpu": 50})
    (over,) = change.overcommitted
    assert (over.resource, over.admits, over.allocated) == ("vcpu", 50, 90)
    assert _row(node.pk).ceiling == 90
    assert not _book(node.pk, "alloc_c", 1, **supply.window())
    assert checks.overcommitted_resources()[0].check == "resources.overcommitted"

    # A change that does not make it worse goes through, though it still does not fit.
    assert resources.set_allocatable(node.pk, {"vcpu": 55}).overcommitted
    resources.free(["alloc_b"])
    assert (_row(node.pk).allocated, _row(node.pk).ceiling) == (60, 60)
    resources.free(["alloc_a"])
    assert (_row(node.pk).allocated, _row(node.pk).ceiling) == (0, 55)
    assert checks.overcommitted_resources() == []
    assert _book(node.pk, "alloc_d", 55, **supply.window())


def test_a_shrunk_host_still_admits_what_fits_at_another_time() -> None:
    node = supply.node(vcpu=102)
    _book(node.pk, "alloc_a", 90, **supply.window(hours=1))
    resources.set_allocatable(node.pk, {"vcpu": 50})
    assert _book(node.pk, "alloc_b", 50, **supply.window(timedelta(days=1)))
    assert _row(node.pk).allocated == 90


def test_the_check_is_a_backstop_whatever_any_code_does() -> None:
    node = supply.node(vcpu=102)
    with (
        pytest.raises(IntegrityError, match="node_resource_within_ceiling"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(
            "UPDATE node_resources SET allocated = 101 WHERE node_id = %s AND resource = 'vcpu'",
            [node.pk],
        )


def test_a_ratio_above_one_sells_more_than_there_is() -> None:
    node = supply.node(vcpu=102)
    NodeResource.objects.filter(node=node, resource="vcpu").update(ratio="1.5")
    resources.set_allocatable(node.pk, {"vcpu": 99})
    assert _row(node.pk).ceiling == 148
    assert _book(node.pk, "alloc_a", 148, **supply.window())
    assert not _book(node.pk, "alloc_b", 1, **supply.window())
