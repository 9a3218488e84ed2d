"""Leases beyond the contract of leadership, which tests/concurrency holds."""

import pytest

from bettercompute.coordination import heartbeats, leases
from bettercompute.coordination.models import Lease

pytestmark = pytest.mark.django_db


@pytest.mark.rule("C29")
def test_a_lapsed_lease_that_nobody_took_goes_on_in_its_term(clock):
    lease = leases.take("shard:1", owner="own_a")
    clock.advance("1h")
    assert leases.current("shard:1") is None
    assert leases.take("shard:1", owner="own_a") == lease


@pytest.mark.rule("C29")
def test_a_new_term_of_the_same_process_is_not_the_old_one():
    old = leases.take("shard:1", owner="own_a")
    leases.give_up(old)
    assert leases.take("shard:1", owner="own_a").epoch == old.epoch + 1
    assert not leases.give_up(old)


@pytest.mark.rule("C29")
def test_acquired_at_tells_since_when_somebody_has_been_in_charge(clock):
    since = clock.now()
    leases.take("shard:1", owner="own_a")
    clock.advance("10s")
    leases.take("shard:1", owner="own_a")
    (holder,) = leases.holders()
    assert holder.acquired_at == since
    clock.advance("1h")
    leases.take("shard:1", owner="own_b")
    (holder,) = leases.holders()
    assert holder.acquired_at == clock.now()


@pytest.mark.rule("C34")
def test_expiring_all_frees_every_lease_and_keeps_the_epochs():
    leases.take("shard:1", owner="own_a")
    leases.take("singleton:resync", owner="own_a", ttl_seconds=3600)
    assert leases.expire_all() == 2
    assert leases.holders() == []
    assert leases.take("shard:1", owner="own_b").epoch == 2


@pytest.mark.rule("C31")
def test_a_gateway_may_ask_for_its_twenty_seconds(clock):
    leases.take("gateway:a", owner="own_a", ttl_seconds=20)
    clock.advance("19s")
    assert leases.take("gateway:a", owner="own_b") is None
    clock.advance("1s")
    assert leases.take("gateway:a", owner="own_b") is not None


def test_several_leases_are_taken_in_one_statement(django_assert_num_queries):
    leases.take("shard:2", owner="own_b")
    with django_assert_num_queries(1):
        taken = leases.take_many(["shard:3", "shard:1", "shard:2"], owner="own_a")
    assert sorted(lease.name for lease in taken) == ["shard:1", "shard:3"]
    assert leases.free(["shard:1", "shard:9"]) == ["shard:9"]


@pytest.mark.rule("C34")
def test_long_after_its_end_a_gateways_lease_goes_and_every_other_keeps_its_epoch(clock):
    leases.take_many(["gateway:own_a", "shard:1"], owner="own_a")
    clock.advance("1d")
    heartbeats.forget()
    assert Lease.objects.count() == 2
    clock.advance("1m")
    heartbeats.forget()
    assert [lease.name for lease in Lease.objects.all()] == ["shard:1"]
