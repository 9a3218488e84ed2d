"""Quotas under rivals: never over the limit, and never deadlocked (C14)."""

import threading

import pytest
from django.db.models import F

from bettercompute import errors
from pools import checks, limits, quota
from pools.models import QuotaUsage
from tests.support import cast, sessions, supply

pytestmark = pytest.mark.django_db(transaction=True)

RACERS = 10
ROUNDS = 5


@pytest.fixture
def acme() -> str:
    tenant_id = cast.tenant("acme").pk
    for resource, most in (("gpuMilli", 7_000), ("memoryGiB", 500), ("vcpu", 500)):
        quota.set_max(tenant_id, resource, most)
    return tenant_id


def used(tenant_id: str) -> int:
    return QuotaUsage.objects.get(tenant=tenant_id, resource="gpuMilli").used


@pytest.mark.rule("C14")
def test_fifty_racing_charges_never_pass_the_limit_and_leave_none_of_it_over(acme):
    def contender(racer: int):
        def charge() -> int:
            won = 0
            for number in range(ROUNDS):
                try:
                    quota.charge(
                        acme,
                        f"rsv_{racer}_{number}",
                        # Given in either order, locked in one: else these would deadlock.
                        {"vcpu": 1, "gpuMilli": 1_000, "memoryGiB": 1}
                        if racer % 2
                        else {"memoryGiB": 1, "gpuMilli": 1_000, "vcpu": 1},
                    )
                    won += 1
                except errors.QuotaExceeded:
                    pass
            return won

        return charge

    won = sessions.race(*[contender(racer) for racer in range(RACERS)])
    assert sum(won) == 7
    assert used(acme) == 7_000
    assert checks.quota_equals_charges() == []


@pytest.mark.rule("C14")
@pytest.mark.case(4)
def test_charges_and_refunds_of_many_reservations_end_where_they_began(acme):
    def contender(racer: int):
        def churn() -> None:
            for number in range(ROUNDS):
                key = f"rsv_{racer}_{number}"
                try:
                    quota.charge(acme, key, {"gpuMilli": 2_000, "vcpu": 3, "memoryGiB": 2})
                except errors.QuotaExceeded:
                    continue
                quota.refund(key)

        return churn

    outcomes = sessions.race(*[contender(racer) for racer in range(RACERS)])
    assert outcomes == [None] * RACERS
    assert used(acme) == 0
    assert checks.quota_equals_charges() == []


@pytest.mark.rule("C14")
def test_two_refunds_of_one_reservation_at_once_give_back_once(acme):
    quota.charge(acme, "rsv_a", {"gpuMilli": 3_000})
    quota.charge(acme, "rsv_b", {"gpuMilli": 1_000})
    sessions.race(*[lambda: quota.refund("rsv_a")] * 6)
    assert used(acme) == 1_000


@pytest.mark.rule("C14")
def test_a_charge_that_waits_for_a_rival_judges_what_the_rival_left(acme):
    with sessions.opened("rival", "late") as (rival, late):
        rival.begin()
        rival.run(lambda: quota.charge(acme, "rsv_a", {"gpuMilli": 6_000}))
        step = late.start(lambda: quota.charge(acme, "rsv_b", {"gpuMilli": 2_000}))
        step.must_block()
        rival.commit()
        with pytest.raises(errors.QuotaExceeded):
            step.result()
    assert used(acme) == 6_000


@pytest.mark.rule("C14")
def test_a_charge_that_waits_for_a_refund_gets_all_its_resources(acme):
    quota.charge(acme, "rsv_a", {"gpuMilli": 7_000})
    with sessions.opened("rival", "late") as (rival, late):
        rival.begin()
        rival.run(lambda: quota.refund("rsv_a"))
        step = late.start(lambda: quota.charge(acme, "rsv_b", {"gpuMilli": 7_000, "vcpu": 1}))
        step.must_block()
        rival.commit()
        step.result()
    assert used(acme) == 7_000
    assert checks.quota_equals_charges() == []


@pytest.mark.rule("C14")
def test_racing_charges_in_a_limited_pool_pass_neither_its_limit_nor_the_tenants(acme):
    limited, other = supply.pool().pk, supply.pool().pk
    limits.limit_pool(acme, limited, "gpuMilli", 3_000)

    def contender(racer: int):
        def charge() -> str:
            pool_id = limited if racer % 2 else other
            try:
                amounts = {"gpuMilli": 1_000, "vcpu": 1}
                quota.charge(acme, f"rsv_{racer}", amounts, pool_id=pool_id)
            except errors.QuotaExceeded:
                return ""
            return pool_id

        return charge

    won = sessions.race(*[contender(racer) for racer in range(12)])
    # The order is anybody's: all of the tenant's 7, at most 3 of them in the limited pool.
    assert won.count(limited) <= 3
    assert won.count(other) == min(6, 7 - won.count(limited))
    assert checks.quota_equals_charges() == []


@pytest.mark.rule("C14")
def test_a_limit_set_while_a_charge_is_under_way_counts_it(acme):
    pool_id = supply.pool().pk
    with sessions.opened("rival", "operator") as (rival, operator):
        rival.begin()
        rival.run(lambda: quota.charge(acme, "rsv_a", {"gpuMilli": 2_000}, pool_id=pool_id))
        step = operator.start(lambda: limits.limit_pool(acme, pool_id, "gpuMilli", 3_000))
        step.must_block()
        rival.commit()
        step.result()
    assert [row.used for row in quota.usage(acme) if row.pool_id == pool_id] == [2_000]
    quota.refund("rsv_a")
    assert checks.quota_equals_charges() == []


@pytest.mark.rule("C14")
def test_a_charge_that_waits_for_a_limit_to_be_set_is_judged_by_it(acme):
    pool_id = supply.pool().pk
    with sessions.opened("operator", "late") as (operator, late):
        operator.begin()
        operator.run(lambda: limits.limit_pool(acme, pool_id, "gpuMilli", 1_000))
        step = late.start(lambda: quota.charge(acme, "rsv_a", {"gpuMilli": 2_000}, pool_id=pool_id))
        step.must_block()
        operator.commit()
        with pytest.raises(errors.QuotaExceeded):
            step.result()
    assert checks.quota_equals_charges() == []


def test_negative_control_reading_before_writing_passes_the_limit(acme):
    everybody_has_read = threading.Barrier(4)

    def charge_without_the_guard() -> None:
        row = QuotaUsage.objects.get(tenant=acme, resource="gpuMilli")
        everybody_has_read.wait(timeout=10)
        if row.used + 3_000 <= row.max:
            QuotaUsage.objects.filter(pk=row.pk).update(used=F("used") + 3_000)

    sessions.race(*[charge_without_the_guard] * 4)
    assert used(acme) == 12_000, "the race that the guard exists for no longer happens"
