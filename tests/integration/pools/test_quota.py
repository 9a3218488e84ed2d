"""Quotas: charged once, refunded once, never passed."""

import pytest
from django.db import IntegrityError, transaction

from bettercompute import errors
from pools import checks, quota
from pools.models import QuotaCharge, QuotaUsage
from tests.support import cast

pytestmark = pytest.mark.django_db


@pytest.fixture
def acme() -> str:
    tenant_id = cast.tenant("acme").pk
    quota.set_max(tenant_id, "gpuMilli", 8_000)
    quota.set_max(tenant_id, "vcpu", 64)
    return tenant_id


def used(tenant_id: str) -> dict[str, int]:
    return {row.resource: row.used for row in quota.usage(tenant_id)}


@pytest.mark.rule("C14")
def test_a_charge_is_taken_up_to_the_very_limit_and_no_further(acme):
    quota.charge(acme, "rsv_a", {"gpuMilli": 8_000})
    with pytest.raises(errors.QuotaExceeded) as refused:
        quota.charge(acme, "rsv_b", {"gpuMilli": 1})
    assert refused.value.details == {
        "quota": "tenant",
        "resource": "gpuMilli",
        "used": 8_000,
        "max": 8_000,
        "asked": 1,
    }
    assert used(acme)["gpuMilli"] == 8_000


@pytest.mark.rule("C14")
def test_a_charge_of_several_resources_is_all_or_nothing(acme):
    with pytest.raises(errors.QuotaExceeded) as refused:
        quota.charge(acme, "rsv_a", {"gpuMilli": 1_000, "vcpu": 65})
    assert refused.value.details["resource"] == "vcpu"
    assert used(acme) == {"gpuMilli": 0, "vcpu": 0}
    assert not QuotaCharge.objects.exists()


@pytest.mark.rule("C14", "R30")
def test_a_resource_without_a_row_is_granted_nothing(acme):
    with pytest.raises(errors.QuotaExceeded) as refused:
        quota.charge(acme, "rsv_a", {"memoryGiB": 1})
    assert refused.value.details["max"] == 0


def test_a_charge_of_nothing_is_free(acme):
    quota.charge(acme, "rsv_a", {"gpuMilli": 0, "memoryGiB": 0})
    assert not QuotaCharge.objects.exists()


@pytest.mark.rule("C14")
@pytest.mark.case(4)
def test_a_refund_gives_back_all_of_a_charge_and_only_once(acme):
    quota.charge(acme, "rsv_a", {"gpuMilli": 3_000, "vcpu": 8})
    quota.charge(acme, "rsv_b", {"gpuMilli": 1_000})
    quota.refund("rsv_a")
    quota.refund("rsv_a")
    quota.refund("rsv_never_charged")
    assert used(acme) == {"gpuMilli": 1_000, "vcpu": 0}
    assert checks.quota_equals_charges() == []


def test_many_refunds_are_one_statement(acme, django_assert_num_queries):
    globex = cast.tenant("globex").pk
    quota.set_max(globex, "gpuMilli", 5_000)
    for number in range(3):
        quota.charge(acme, f"rsv_{number}", {"gpuMilli": 1_000})
    quota.charge(globex, "rsv_other", {"gpuMilli": 5_000})
    with django_assert_num_queries(1):
        quota.refund_many(["rsv_0", "rsv_2", "rsv_other"])
    assert used(acme)["gpuMilli"] == 1_000
    assert used(globex)["gpuMilli"] == 0


@pytest.mark.rule("C14")
def test_the_same_reservation_is_not_charged_twice(acme):
    quota.charge(acme, "rsv_a", {"gpuMilli": 1_000})
    with pytest.raises(IntegrityError), transaction.atomic():
        quota.charge(acme, "rsv_a", {"gpuMilli": 1_000})
    assert used(acme)["gpuMilli"] == 1_000


@pytest.mark.rule("C14")
def test_a_range_that_took_fewer_gives_the_difference_back(acme):
    quota.charge(acme, "rsv_a", {"gpuMilli": 8_000, "vcpu": 8})
    quota.lower("rsv_a", {"gpuMilli": 3_000})
    quota.lower("rsv_a", {"gpuMilli": 5_000})  # more than is charged: nothing to give back
    assert used(acme) == {"gpuMilli": 3_000, "vcpu": 8}
    quota.refund("rsv_a")
    assert used(acme) == {"gpuMilli": 0, "vcpu": 0}


@pytest.mark.rule("C14")
@pytest.mark.case(25)
def test_a_limit_below_what_is_held_admits_nothing_and_lets_go(acme):
    quota.charge(acme, "rsv_a", {"gpuMilli": 6_000})
    quota.set_max(acme, "gpuMilli", 5_000)
    with pytest.raises(errors.QuotaExceeded):
        quota.charge(acme, "rsv_b", {"gpuMilli": 1})
    quota.refund("rsv_a")
    quota.charge(acme, "rsv_b", {"gpuMilli": 5_000})


@pytest.mark.case(19)
def test_amounts_near_the_largest_integer_neither_overflow_nor_turn_negative(acme):
    largest = 2**63 - 1
    quota.set_max(acme, "gpuMilli", largest)
    quota.charge(acme, "rsv_a", {"gpuMilli": largest - 1})
    with pytest.raises(errors.QuotaExceeded):
        quota.charge(acme, "rsv_b", {"gpuMilli": largest})
    quota.charge(acme, "rsv_c", {"gpuMilli": 1})
    assert used(acme)["gpuMilli"] == largest
    for amount in (2**63, -1):
        with pytest.raises(errors.InvalidInput):
            quota.charge(acme, "rsv_d", {"gpuMilli": amount})
    with pytest.raises(errors.InvalidInput):
        quota.set_max(acme, "gpuMilli", 2**63)
    with pytest.raises(errors.InvalidInput):
        quota.set_max(acme, "gpus", 1)


def test_what_would_be_used_afterwards_includes_what_has_no_limit(acme):
    quota.charge(acme, "rsv_a", {"gpuMilli": 7_000})
    after = quota.after(acme, {"gpuMilli": 2_000, "memoryGiB": 4, "vcpu": 0})
    assert [(row.resource, row.used, row.max) for row in after] == [
        ("gpuMilli", 9_000, 8_000),
        ("memoryGiB", 4, 0),
    ]
    assert used(acme)["gpuMilli"] == 7_000


@pytest.mark.rule("C39")
def test_the_self_check_finds_a_quota_that_is_not_the_sum_of_its_charges(acme):
    quota.charge(acme, "rsv_a", {"gpuMilli": 1_000})
    assert checks.quota_equals_charges() == []
    QuotaUsage.objects.filter(tenant=acme, resource="gpuMilli").update(used=2_000)
    QuotaCharge.objects.create(tenant_id=acme, owner_key="rsv_b", resource="memoryGiB", amount=5)
    found = checks.quota_equals_charges()
    assert [finding.check for finding in found] == ["quota.charges"] * 2
    assert "2000 gpuMilli in use, but its charges are 1000" in found[0].message
