"""Host resources from the request to the booking: resolved once, kept by every placement (R30)."""

from collections.abc import Mapping
from typing import Any

import pytest

from bettercompute import clock as clocks
from bettercompute import errors, units
from bettercompute.wire.capacity import Filter
from nodes import eligibility
from nodes.models import Node, NodeResource, ReportedState, ResourceBooking
from pools import catalogue, preview, quota
from pools.models import Pool, QuotaCharge, QuotaUsage
from reservations import ending
from reservations.models import Reservation
from tests.conftest import SimulatedClock
from tests.support import cast, invariants, make, supply

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("R30")]

SHARE = {"vcpu": 8, "memoryGiB": 64}
CAPABILITY = "bc.dev/cap.devices.limits"
HOUR_MS = 3_600_000


@pytest.fixture
def pool() -> Pool:
    """Two hosts, and 8 CPUs and 64 GiB with each GPU."""
    return make.pool(nodes=2, gpus=4, perGpu=SHARE)


def booked(reservation: Reservation) -> list[Mapping[str, int]]:
    """What each of its live allocations holds of its host."""
    live = reservation.allocations.filter(state__in=["placed", "binding", "bound"])
    assert {each.node_id for each in ResourceBooking.objects.filter(amount__gt=0)} >= {
        each.node_id for each in live if each.resources
    }
    return [each.resources for each in live.order_by("id")]


def charged(reservation: Reservation) -> dict[str, int]:
    return dict(
        QuotaCharge.objects.filter(owner_key=reservation.pk).values_list("resource", "amount")
    )


def another_share(pool: Pool) -> None:
    """The pool's policy is another from now on."""
    catalogue.change_pool(pool.pk, region="", policy={"perGpu": {"vcpu": 1, "memoryGiB": 1}})


@pytest.mark.parametrize("resources", [{}, {"vcpu": 0}, {"vcpu": 1, "memoryGiB": 100}])
def test_less_than_the_share_is_raised_to_it(pool: Pool, resources: dict[str, int]) -> None:
    made = make.reservation(cast.caller("alice"), pool, gpus=2, resources=resources)
    assert booked(made) == [{"vcpu": 16, "memoryGiB": 128}]
    assert made.host_share == {"vcpu": 16, "memoryGiB": 128}
    assert charged(made) == {"gpuMilli": 2_000}, "the share needs no quota of its own"


def test_an_empty_share_is_recorded_and_all_beyond_it_is_charged() -> None:
    pool = make.pool(perGpu={"vcpu": 0, "memoryGiB": 0})
    plain = make.reservation(cast.caller("alice"), pool)
    assert (plain.host_share, booked(plain), charged(plain)) == ({}, [{}], {"gpuMilli": 1_000})
    asked = make.reservation(
        cast.caller("alice"), pool, gang={"nodes": 1}, resources={"vcpu": 5, "memoryGiB": 7}
    )
    assert booked(asked) == [{"vcpu": 5, "memoryGiB": 7}]
    assert charged(asked) == {"gpuMilli": 1_000, "vcpu": 5, "memoryGiB": 7}


def test_a_gang_books_and_is_charged_for_each_of_its_nodes(pool: Pool) -> None:
    made = make.reservation(
        cast.caller("alice"), pool, gpus=2, gang={"nodes": 2}, resources={"vcpu": 20}
    )
    assert booked(made) == [{"vcpu": 20, "memoryGiB": 128}] * 2
    assert made.host_share == {"vcpu": 16, "memoryGiB": 128}, "of each node"
    assert charged(made) == {"gpuMilli": 4_000, "vcpu": 8}


def test_the_share_is_that_of_the_draft_however_late_it_is_placed(
    pool: Pool, clock: SimulatedClock
) -> None:
    """R30: resolved once. Placed after a wait, placed again after a failure, extended: the same."""
    alice = cast.caller("alice")
    taken = make.reservation(alice, pool, gpus=4, gang={"nodes": 2})
    made = make.reservation(alice, pool, gpus=2, duration="2h")
    assert made.state == "pending"
    another_share(pool)

    ending.release(alice, reservation_id=taken.pk)
    waited = make.look(made)
    assert waited.state == "binding"
    assert booked(waited) == [{"vcpu": 16, "memoryGiB": 128}]
    make.report(waited, ReportedState.FAILED)
    again = make.look(waited)
    assert again.placements_failed == 1
    assert booked(again) == [{"vcpu": 16, "memoryGiB": 128}]
    assert again.host_share == made.host_share
    assert invariants.violations() == []


def test_a_draft_that_is_decided_again_keeps_its_share(pool: Pool) -> None:
    alice = cast.caller("alice")
    make.grant("acme", gpus=0)
    with pytest.raises(errors.QuotaExceeded):
        make.reservation(alice, pool, idempotency_key="again")
    another_share(pool)
    make.grant("acme", gpus=1)
    made = make.reservation(alice, pool, idempotency_key="again")
    assert (made.host_share, booked(made)) == (SHARE, [SHARE])


class TestQuota:
    """What is booked beyond the share is charged; where there is no limit, none is granted."""

    @pytest.fixture(autouse=True)
    def _gpus_only(self, pool: Pool) -> None:
        """A tenant with a quota of GPUs, and of nothing else."""
        quota.set_max(cast.tenant("globex").pk, quota.GPU_MILLI, 64_000)

    @pytest.mark.parametrize(
        ("resources", "missing"),
        [
            ({"vcpu": 9}, "vcpu"),
            ({"memoryGiB": 65}, "memoryGiB"),
            ({"hugepages1Gi": 1}, "memoryGiB"),
        ],
    )
    def test_an_excess_without_a_row_is_refused_by_preview_and_create(
        self, pool: Pool, resources: dict[str, int], missing: str
    ) -> None:
        catalogue.offer(pool, cast.tenant("globex"))
        mallory = cast.caller("mallory")
        found = preview.preview(mallory, make.request(mallory, pool, resources=resources))
        quotas = [each.needs for each in found.reasons if each.filter is Filter.QUOTA]
        assert quotas == [f"{units.text(missing, 1)}, of which 0 are left of 0"]
        with pytest.raises(errors.QuotaExceeded) as refused:
            make.reservation(mallory, pool, resources=resources)
        assert refused.value.details["resource"] == missing
        assert make.reservation(mallory, pool).state == "placed", "the share itself needs none"

    def test_an_offer_that_names_it_grants_it(self, pool: Pool) -> None:
        catalogue.offer(pool, cast.tenant("globex"), resources={"vcpu": 10})
        mallory = cast.caller("mallory")
        made = make.reservation(mallory, pool, resources={"vcpu": 18})
        assert (made.state, charged(made)) == ("placed", {"gpuMilli": 1_000, "vcpu": 10})
        with pytest.raises(errors.QuotaExceeded):
            make.reservation(mallory, pool, resources={"vcpu": 9})

    def test_one_gpus_quota_does_not_take_a_whole_host(self, pool: Pool) -> None:
        catalogue.offer(pool, cast.tenant("globex"))
        whole = NodeResource.objects.filter(resource="vcpu").first()
        assert whole is not None
        mallory = cast.caller("mallory")
        with pytest.raises(errors.QuotaExceeded):
            make.reservation(mallory, pool, resources={"vcpu": whole.allocatable})
        used = QuotaUsage.objects.filter(tenant=cast.tenant("globex"))
        assert {each.resource: each.used for each in used} == {"gpuMilli": 0}


class TestCapability:
    """Where host resources are booked, the node's agent must be one that enforces them."""

    @pytest.fixture
    def old(self, pool: Pool) -> Pool:
        """A pool whose agents enforce no limits."""
        for node in Node.objects.filter(pool=pool):
            eligibility.set_system_labels(node.pk, {})
        return pool

    def test_a_create_waits_and_the_preview_says_why(self, old: Pool) -> None:
        alice = cast.caller("alice")
        (reason,) = preview.preview(alice, make.request(alice, old)).reasons
        found = (reason.filter, reason.needs, reason.nodes)
        assert found == (Filter.LABELS, f"label {CAPABILITY}", 2)
        made = make.reservation(alice, old)
        assert made.state == "pending"
        assert CAPABILITY in made.conditions[0]["message"]

    def test_a_pending_one_is_placed_once_an_agent_enforces_them(self, old: Pool) -> None:
        made = make.reservation(cast.caller("alice"), old)
        able = Node.objects.filter(pool=old).first()
        assert able is not None
        eligibility.set_system_labels(able.pk, {CAPABILITY: "true"})
        make.look_at_pool(old)
        assert [each.node_id for each in made.allocations.all()] == [able.pk]

    def test_a_label_of_an_operator_does_not_count(self, old: Pool) -> None:
        with pytest.raises(errors.InvalidInput):
            eligibility.set_labels(Node.objects.filter(pool=old)[0].pk, {CAPABILITY: "true"})
        # However it came into the row: only what the gateway wrote says what an agent can do.
        Node.objects.filter(pool=old).update(labels={CAPABILITY: "true"})
        assert make.reservation(cast.caller("alice"), old).state == "pending"

    def test_an_agent_that_is_downgraded_before_the_start_loses_it(
        self, pool: Pool, clock: SimulatedClock
    ) -> None:
        start = clocks.now_ms() + HOUR_MS
        made = make.reservation(cast.caller("alice"), pool, start=start)
        before = made.allocations.get().node_id
        eligibility.set_system_labels(before, {})
        clock.advance("46m")
        repaired = make.look(made)
        (after,) = repaired.allocations.filter(state="placed")
        assert after.node_id != before
        assert booked(repaired) == [SHARE]

    def test_what_is_placed_again_is_placed_where_they_are_enforced(self, pool: Pool) -> None:
        made = make.look(make.reservation(cast.caller("alice"), pool))
        able = made.allocations.get().node_id
        for node in Node.objects.exclude(pk=able):
            eligibility.set_system_labels(node.pk, {})
        make.report(made, ReportedState.FAILED)
        again = make.look(made)
        assert [each.node_id for each in again.allocations.filter(state="binding")] == [able]

    @pytest.mark.parametrize("asked", [{}, {"resources": {}}])
    def test_a_hold_that_books_none_needs_no_capability(self, asked: dict[str, Any]) -> None:
        pool = make.pool(perGpu={"vcpu": 0, "memoryGiB": 0})
        for node in Node.objects.filter(pool=pool):
            eligibility.set_system_labels(node.pk, {})
        assert make.reservation(cast.caller("alice"), pool, **asked).state == "placed"


class TestHostsWithoutRows:
    """A host that counts nothing gives nothing of it, and takes holds that ask for nothing."""

    @pytest.fixture
    def bare(self) -> Pool:
        pool = supply.pool()
        NodeResource.objects.filter(node=supply.node(pool)).delete()
        make.grant("acme", gpus=8)
        return pool

    def test_it_books_none_and_needs_no_capability(self, bare: Pool) -> None:
        made = make.reservation(cast.caller("alice"), bare)
        assert (made.state, made.host_share) == ("placed", {})
        assert not ResourceBooking.objects.exists()

    def test_it_is_no_fit_for_who_asks_for_some(self, bare: Pool) -> None:
        alice = cast.caller("alice")
        asked = make.request(alice, bare, resources={"vcpu": 1})
        assert not preview.preview(alice, asked).fits
        assert make.reservation(alice, bare, resources={"vcpu": 1}).state == "pending"


def test_a_new_host_is_bookable_as_soon_as_its_inventory_is_applied(pool: Pool) -> None:
    alice = cast.caller("alice")
    for _ in range(2):
        make.reservation(alice, pool, gpus=4)
    made = make.reservation(alice, pool, gpus=4)
    assert made.state == "pending"
    fresh = make.node(pool, gpus=4)
    make.look_at_pool(pool)
    assert [each.node_id for each in made.allocations.all()] == [fresh]
    assert booked(made) == [{"vcpu": 32, "memoryGiB": 256}]
