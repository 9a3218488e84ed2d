"""What a pool and its offers allow a tenant, beside its own quota."""

import pytest

from bettercompute import errors
from bettercompute.iam.models import Tenant
from pools import catalogue, checks, limits, preview, quota
from pools.models import Offer, QuotaUsage
from reservations import ending
from tests.support import cast, make, supply

pytestmark = [pytest.mark.django_db, pytest.mark.rule("C14")]


@pytest.fixture
def acme() -> str:
    make.grant("acme", gpus=8)
    return cast.tenant("acme").pk


def used(tenant_id: str) -> dict[tuple[str, str], int]:
    rows = quota.usage(tenant_id)
    return {(row.scope, row.pool_id or ""): row.used for row in rows if row.resource == "gpuMilli"}


def test_a_pools_limit_counts_what_is_held_in_it_and_leaves_other_pools_alone(acme):
    here, there = supply.pool().pk, supply.pool().pk
    quota.charge(acme, "rsv_before", {"gpuMilli": 1_000}, pool_id=here)
    limits.limit_pool(acme, here, "gpuMilli", 3_000)
    quota.charge(acme, "rsv_a", {"gpuMilli": 2_000, "vcpu": 4}, pool_id=here)
    quota.charge(acme, "rsv_b", {"gpuMilli": 4_000}, pool_id=there)
    assert used(acme) == {("tenant", ""): 7_000, ("pool", here): 3_000}
    with pytest.raises(errors.QuotaExceeded) as refused:
        quota.charge(acme, "rsv_c", {"gpuMilli": 500}, pool_id=here)
    assert refused.value.details == {
        "quota": "pool",
        "poolId": here,
        "resource": "gpuMilli",
        "used": 3_000,
        "max": 3_000,
        "asked": 500,
    }
    with pytest.raises(errors.QuotaExceeded) as refused:
        quota.charge(acme, "rsv_c", {"gpuMilli": 1_500}, pool_id=there)
    assert refused.value.details["quota"] == "tenant"
    assert checks.quota_equals_charges() == []


def test_what_is_given_back_or_lowered_comes_back_to_every_quota_that_counted_it(acme):
    here = supply.pool().pk
    limits.limit_pool(acme, here, "gpuMilli", 4_000)
    quota.charge(acme, "rsv_a", {"gpuMilli": 4_000}, pool_id=here)
    quota.lower("rsv_a", {"gpuMilli": 1_000})
    assert used(acme) == {("tenant", ""): 1_000, ("pool", here): 1_000}
    quota.refund("rsv_a")
    quota.refund("rsv_a")
    assert used(acme) == {("tenant", ""): 0, ("pool", here): 0}


def test_another_tenants_limit_in_the_pool_is_not_ours(acme):
    here, globex = supply.pool().pk, cast.tenant("globex").pk
    make.grant("globex", gpus=8)
    limits.limit_pool(globex, here, "gpuMilli", 0)
    quota.charge(acme, "rsv_a", {"gpuMilli": 1_000}, pool_id=here)
    with pytest.raises(errors.QuotaExceeded):
        quota.charge(globex, "rsv_b", {"gpuMilli": 1}, pool_id=here)


def test_a_limit_that_was_taken_away_binds_no_more(acme):
    here = supply.pool().pk
    limits.limit_pool(acme, here, "gpuMilli", 1_000)
    quota.charge(acme, "rsv_a", {"gpuMilli": 1_000}, pool_id=here)
    limits.lift_pool(acme, here, "gpuMilli")
    quota.charge(acme, "rsv_b", {"gpuMilli": 1_000}, pool_id=here)
    quota.refund_many(["rsv_a", "rsv_b"])
    assert used(acme) == {("tenant", ""): 0}
    with pytest.raises(errors.NotFound):
        limits.lift_pool(acme, here, "gpuMilli")
    for resource, most in (("gold", 1), ("gpuMilli", -1), ("gpuMilli", 2**63)):
        with pytest.raises(errors.InvalidInput):
            limits.limit_pool(acme, here, resource, most)


def test_an_offer_limits_what_is_held_by_it_of_each_resource_that_it_names():
    pool = make.pool()
    globex = cast.tenant("globex")
    make.grant("globex", gpus=64)
    made = catalogue.offer(pool, globex, resources={"gpuMilli": 2_000, "vcpu": 8})
    mallory = cast.caller("mallory")
    make.reservation(mallory, pool, gpus=2)
    with pytest.raises(errors.QuotaExceeded) as refused:
        make.reservation(mallory, pool)
    assert refused.value.details == {
        "quota": "offer",
        "poolId": pool.pk,
        "poolOfferId": made.pk,
        "resource": "gpuMilli",
        "used": 2_000,
        "max": 2_000,
        "asked": 1_000,
    }
    # Other terms: it counts what is held already; memory was never named and is not limited.
    catalogue.offer(pool, globex, resources={"gpuMilli": 3_000})
    third = make.reservation(mallory, pool, resources={"memoryGiB": 2_000})
    assert used(globex.pk)["offer", pool.pk] == 3_000
    ending.release(mallory, reservation_id=third.pk)
    assert used(globex.pk)["offer", pool.pk] == 2_000
    # The owner is limited by no offer.
    make.reservation(cast.caller("alice"), pool, gpus=4)
    Offer.objects.all().delete()
    assert not QuotaUsage.objects.exclude(offer=None).exists()
    assert checks.quota_equals_charges() == []


@pytest.mark.rule("R30")
def test_naming_cpus_grants_them_to_whom_no_quota_does_and_naming_gpus_grants_none():
    pool, initech = make.pool(), Tenant.objects.create(slug="initech", name="Initech")
    catalogue.offer(pool, initech, resources={"gpuMilli": 4_000, "vcpu": 16})
    own = {row.resource: row.max for row in quota.usage(initech.pk) if row.scope == "tenant"}
    assert own == {"vcpu": 16}
    for resources in ({"gold": 1}, {"gpuMilli": -1}, {"vcpu": "many"}, {"vcpu": True}):
        with pytest.raises(errors.InvalidInput) as refused:
            catalogue.offer(pool, initech, resources=resources)
        (wrong,) = refused.value.details["errors"]
        assert wrong["path"] == f"resources.{next(iter(resources))}"


@pytest.mark.rule("R20")
def test_a_preview_shows_every_quota_and_says_which_is_too_small():
    pool, alice = make.pool(), cast.caller("alice")
    limits.limit_pool(alice.tenant_id, pool.pk, "gpuMilli", 3_000)
    limits.limit_pool(alice.tenant_id, supply.pool().pk, "gpuMilli", 1)
    shown = preview.preview(alice, make.request(alice, pool, gpus=2))
    assert shown.fits
    assert [(row.scope, row.used, row.max) for row in shown.quota_after] == [
        ("tenant", 2_000, 256_000),
        ("pool", 2_000, 3_000),
    ]
    shown = preview.preview(alice, make.request(alice, pool, gpus=4))
    assert [(reason.filter, reason.needs) for reason in shown.reasons] == [
        ("quota", "4 GPUs in this pool, of which 3 are left of 3")
    ]


def test_they_are_listed_over_rest():
    pool, alice = make.pool(), cast.caller("alice")
    limits.limit_pool(alice.tenant_id, pool.pk, "vcpu", 5)
    items = cast.api("alice").get("/quotas").json()["items"]
    assert {"scope": "tenant", "poolId": None}.items() <= items[0].items()
    assert items[-1] == {
        "resource": "vcpu",
        "used": 0,
        "max": 5,
        "scope": "pool",
        "poolId": pool.pk,
        "poolOfferId": None,
    }
