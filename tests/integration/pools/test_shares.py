"""Host resources that come with the GPUs (R30)."""

import pytest

from nodes.models import NodeResource
from pools import attributes, catalogue, requests, shares
from pools.requests import NormalisedRequest
from tests.support import cast, make, supply

pytestmark = [pytest.mark.django_db, pytest.mark.rule("R30")]


def normalised(pool, **changes) -> NormalisedRequest:
    return requests.normalise(make.request(cast.caller("alice"), pool, **changes), now_ms=0)


def share_of(pool, **changes) -> shares.Share:
    alice = cast.caller("alice")
    access = catalogue.access_pool(alice, pool.pk)
    return shares.host_share(access, normalised(pool, **changes))


def free(node, resource) -> int:
    return NodeResource.objects.get(node=node, resource=resource).allocatable


def test_the_share_is_the_smallest_that_any_gpu_host_of_the_pool_can_give():
    pool = supply.pool()
    large = supply.node(pool, gpus=4, vcpu=194, memory_gib=1_024)
    small = supply.node(pool, gpus=8, vcpu=66, memory_gib=2_048)
    expected = {
        "vcpu": min(free(large, "vcpu") * 3 // 4, free(small, "vcpu") * 3 // 8),
        "memoryGiB": min(free(large, "memoryGiB") * 3 // 4, free(small, "memoryGiB") * 3 // 8),
    }
    assert free(small, "vcpu") * 4 < free(large, "vcpu") * 8, "the small one gives less a GPU"
    assert share_of(pool, gpus=3).recorded == expected


def test_the_ratio_counts_and_every_physical_gpu_does_bookable_or_not():
    pool = supply.pool()
    node = supply.node(pool, gpus=8, vcpu=66)
    whole = free(node, "vcpu")
    NodeResource.objects.filter(node=node, resource="vcpu").update(ratio=2)
    node.devices.filter(index__lt=4).update(bookable_mode=None)
    assert share_of(pool, gpus=1).recorded["vcpu"] == whole * 2 // 8


def test_what_the_policy_says_comes_before_what_hosts_could_give():
    pool = supply.pool(perGpu={"vcpu": 6})
    supply.node(pool)
    share = share_of(pool, gpus=2)
    assert share.recorded["vcpu"] == 12
    assert share.recorded["memoryGiB"] > 0, "what the policy leaves open is the hosts' share"
    zero = supply.pool(name="none", perGpu={"vcpu": 0, "memoryGiB": 0})
    assert share_of(zero).recorded == {}


def test_a_mig_instance_is_a_seventh_and_a_slot_one_of_the_replicas():
    policy = {"perGpu": {"vcpu": 15, "memoryGiB": 100}, "sharing": {"replicas": 8}}
    pool = supply.pool(**policy)
    mig = {"class": "gpu.mig", "profile": "1g.10gb", "count": 3}
    slots = {"class": "gpu.slot", "count": 3}
    assert share_of(pool, devices=[mig]).recorded == {"vcpu": 6, "memoryGiB": 42}
    assert share_of(pool, devices=[slots]).recorded == {"vcpu": 5, "memoryGiB": 37}
    both = share_of(pool, devices=[mig, slots]).recorded
    assert both == {"vcpu": 12, "memoryGiB": 80}, "summed before it is rounded down"


@pytest.mark.parametrize(
    ("sharing", "slots"),
    [
        ({}, 4),
        ({"mode": "time-slicing"}, 4),
        ({"mode": "mps"}, 10),
        ({"mode": "mps", "replicas": 8}, 8),
    ],
)
def test_a_card_has_as_many_slots_as_its_way_of_sharing_has_by_default(sharing, slots):
    pool = supply.pool(perGpu={"vcpu": 40, "memoryGiB": 0}, sharing=sharing)
    one = share_of(pool, devices=[{"class": "gpu.slot", "count": 1}])
    assert one.recorded == {"vcpu": 40 // slots}


def test_a_pool_whose_hosts_count_nothing_has_an_empty_share():
    pool = supply.pool()
    assert share_of(pool) == shares.Share({}, {}, {}, {"vcpu": 0, "memoryGiB": 0})
    asked = share_of(pool, resources={"vcpu": 4})
    assert (asked.recorded, asked.booked, asked.excess) == ({}, {"vcpu": 4}, {"vcpu": 4})


def test_the_share_is_the_floor_and_what_exceeds_it_is_charged_for_each_node():
    pool = supply.pool(perGpu={"vcpu": 8, "memoryGiB": 64})
    low = share_of(pool, gpus=2, resources={"vcpu": 1})
    assert (low.booked, low.excess) == ({"vcpu": 16, "memoryGiB": 128}, {})
    gang = share_of(
        pool,
        gpus=2,
        gang={"nodes": 3},
        resources={"vcpu": 20, "memoryGiB": 130, "hugepages1Gi": 5},
    )
    assert gang.booked == {"vcpu": 20, "memoryGiB": 130, "hugepages1Gi": 5}
    assert gang.excess == {"vcpu": 12, "memoryGiB": 21}, "huge pages count as memory"
    assert gang.totals == {"vcpu": 60, "memoryGiB": 405}


def test_a_recorded_share_resolves_to_the_same_later():
    pool = supply.pool()
    supply.node(pool)
    request = normalised(pool, gpus=2, resources={"vcpu": 100})
    access = catalogue.access_pool(cast.caller("alice"), pool.pk)
    share = shares.host_share(access, request)
    supply.node(pool, gpus=8, vcpu=18, memory_gib=64)  # the smallest share is smaller now
    assert shares.resolve(share.recorded, request) == share
    assert shares.charges(request, share, access) == {"gpuMilli": 2_000, **share.excess}


@pytest.mark.rule("R38")
def test_policies_see_sums_over_the_gang_and_every_model_that_may_be_given():
    pool = supply.pool(perGpu={"vcpu": 8, "memoryGiB": 64})
    supply.node(pool)
    access = catalogue.access_pool(cast.caller("alice"), pool.pk)

    def seen(**changes):
        request = normalised(pool, **changes)
        share = shares.host_share(access, request)
        return attributes.of(access, request, share, now_ms=0)

    gang = seen(gpus=2, gang={"nodes": 3}, duration="90s", start=59_000)
    assert (gang.gpus, gang.gpu_milli, gang.nodes) == (6, 6_000, 3)
    assert (gang.vcpu, gang.memory_gib) == (48, 384)
    assert (gang.duration_minutes, gang.lead_minutes) == (2, 0), "a cap is not passed by rounding"
    assert gang.models == ("H100",)
    chosen = {"class": "gpu", "count": 1, "selector": {"model": "A100"}}
    assert seen(devices=[chosen]).models == ("A100",)
