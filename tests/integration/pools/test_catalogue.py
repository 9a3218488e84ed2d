"""Pools: who may book them, under which policy."""

import pytest

from bettercompute import errors
from bettercompute.wire.reservations import Binding
from pools import catalogue, quota, requests
from pools.models import Pool
from tests.support import cast, make, supply

pytestmark = pytest.mark.django_db

DAY_MS = 86_400_000


def normalised(pool, **changes):
    return requests.normalise(make.request(cast.caller("alice"), pool, **changes), now_ms=0)


@pytest.mark.rule("R38")
def test_a_pool_is_there_for_its_owner_and_for_whom_it_is_offered_to():
    pool = supply.pool()
    assert catalogue.access_pool(cast.caller("bob"), pool.pk).owned
    for pool_id in (pool.pk, "pool_that_is_not"):
        with pytest.raises(errors.NotFound) as refused:
            catalogue.access_pool(cast.caller("mallory"), pool_id)
        assert "offered" in refused.value.message, "both answers read the same"

    made = catalogue.offer(pool, cast.tenant("globex"))
    access = catalogue.access_pool(cast.caller("mallory"), pool.pk)
    assert (access.owned, access.owner_id) == (False, cast.tenant().pk)
    assert access.offer is not None
    assert access.offer.id == made.id


def test_ones_own_pools_come_first():
    theirs = supply.pool(owner="globex", name="a-theirs")
    catalogue.offer(theirs, cast.tenant())
    supply.pool(owner="globex", name="b-closed")
    supply.pool(name="z-own")
    assert [pool.name for pool in catalogue.pools_for(cast.caller("alice"))] == [
        "z-own",
        "a-theirs",
    ]


def test_offering_again_changes_the_terms_and_makes_no_second_offer():
    pool = supply.pool()
    first = catalogue.offer(pool, cast.tenant("globex"))
    again = catalogue.offer(pool, cast.tenant("globex"), resources={"vcpu": 8})
    assert first.id == again.id
    assert catalogue.access_pool(cast.caller("mallory"), pool.pk).offer.resources == {"vcpu": 8}
    with pytest.raises(errors.InvalidInput):
        catalogue.offer(pool, cast.tenant("globex"), resources={"gold": 1})


def own_limits(tenant):
    rows = quota.usage(tenant.pk)
    return {row.resource: row.max for row in rows if row.scope == "tenant"}


@pytest.mark.rule("R30")
def test_an_offer_that_names_a_resource_grants_it_where_there_is_no_limit():
    initech = cast.tenant("initech")
    pool = supply.pool()
    make.grant("globex", gpus=1)
    catalogue.offer(pool, initech, resources={"vcpu": 32, "memoryGiB": 64})
    catalogue.offer(pool, cast.tenant("globex"), resources={"vcpu": 1})
    assert own_limits(initech) == {"vcpu": 32, "memoryGiB": 64}
    assert own_limits(cast.tenant("globex"))["vcpu"] == 100_000


@pytest.mark.rule("R2")
@pytest.mark.parametrize(
    ("policy", "path"),
    [
        ({"maxAhed": "1d"}, "policy.maxAhed"),
        ({"maxAhead": "soon"}, "policy.maxAhead"),
        ({"maxAhead": "99999999999d"}, "policy.maxAhead"),
        ({"recurrenceAhead": "1831d"}, "policy.recurrenceAhead"),
        ({"perGpu": {"vcpu": -1}}, "policy.perGpu.vcpu"),
        ({"sharing": {"replicas": 0}}, "policy.sharing.replicas"),
        ({"kubernetes": "yes"}, "policy.kubernetes"),
    ],
)
def test_a_policy_that_is_none_is_refused_and_says_where(policy, path):
    with pytest.raises(errors.InvalidInput) as refused:
        catalogue.create_pool(cast.tenant(), name="odd", policy=policy)
    assert refused.value.details["errors"][0]["path"] == path


@pytest.mark.rule("R2")
def test_limits_of_the_pool_are_refusals_and_count_from_now():
    pool = supply.pool(maxAhead="7d", maxDuration="3d")
    access = catalogue.access_pool(cast.caller("alice"), pool.pk)

    def refused(**changes) -> list[str]:
        return catalogue.refusals(access, normalised(pool, **changes), now_ms=0)

    assert refused() == []
    assert refused(start=7 * DAY_MS, duration="3d") == []
    assert refused(start=7 * DAY_MS + 1, duration="3d1ms") == [
        "start at most 7d ahead",
        "duration at most 3d",
    ]


@pytest.mark.rule("R13", "R38")
def test_only_admins_of_its_owner_go_beyond_a_pools_highest_priority():
    plain, raised = supply.pool(), supply.pool(maxPriority=5)
    catalogue.offer(raised, cast.tenant("globex"))

    def refused(name: str, pool: Pool, priority: int) -> bool:
        access = catalogue.access_pool(cast.caller(name), pool.pk)
        return bool(catalogue.refusals(access, normalised(pool, priority=priority), now_ms=0))

    assert not refused("alice", plain, 1_000)
    assert [refused("bob", plain, priority) for priority in (-1, 0, 1)] == [False, False, True]
    assert [refused("bob", raised, priority) for priority in (5, 6)] == [False, True]
    assert [refused("mallory", raised, priority) for priority in (5, 6)] == [False, True]


@pytest.mark.rule("R27")
def test_a_kubernetes_binding_is_for_the_owner_of_a_pool_that_has_it():
    plain = supply.pool(name="plain")
    clustered = supply.pool(name="k8s", kubernetes=True)
    catalogue.offer(clustered, cast.tenant("globex"))

    def check(caller, pool) -> None:
        access = catalogue.access_pool(caller, pool.pk)
        catalogue.check_binding(access, normalised(pool, binding=Binding.KUBERNETES))

    check(cast.caller("alice"), clustered)
    for caller, pool in ((cast.caller("alice"), plain), (cast.caller("mallory"), clustered)):
        with pytest.raises(errors.InvalidInput) as refused:
            check(caller, pool)
        assert refused.value.details["errors"][0]["path"] == "binding"


def test_whoever_holds_something_still_sees_the_pool_after_the_offer_is_gone():
    pool = supply.pool()
    catalogue.offer(pool, cast.tenant("globex")).delete()
    with pytest.raises(errors.NotFound):
        catalogue.access_pool(cast.caller("mallory"), pool.pk)
    assert catalogue.of_tenant(cast.tenant("globex").pk, pool.pk).pool_id == pool.pk
