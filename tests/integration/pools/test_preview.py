"""The preview: what a create would do, without doing it (R20)."""

from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from bettercompute import errors
from bettercompute.iam import callers, policies
from bettercompute.iam.policies import Draft
from bettercompute.wire.capacity import Filter, Preview
from nodes import bookings, eligibility
from pools import catalogue, preview, quota
from pools.models import Pool
from tests.support import cast, make, supply

COMMITS = pytest.mark.django_db(transaction=True)  # admission's transactions are durable
pytestmark = [pytest.mark.django_db, pytest.mark.rule("R20")]

HOUR_MS = 3_600_000
H100_LIMIT = Path(policies.__file__).parent / "policies" / "examples" / "h100-limit.cedar"


@pytest.fixture
def pool() -> Pool:
    return make.pool(nodes=2)


def look(pool: Pool | str, *, by: str = "alice", **changes) -> Preview:
    caller = cast.caller(by)
    return preview.preview(caller, make.request(caller, pool, **changes))


def filters(found: Preview) -> list[Filter]:
    assert not found.fits
    return [reason.filter for reason in found.reasons]


def test_a_request_that_fits_says_where_what_it_costs_and_what_is_left(pool):
    found = look(pool, gpus=4, duration="90m")
    assert found.fits
    assert found.reasons == []
    (node,) = found.nodes
    assert len(node.device_ids) == 4
    assert node.device_ids[0].startswith("GPU-")
    assert found.quote.gpu_hours == 6.0
    assert found.quote.price is None
    assert [(q.resource, q.used, q.max) for q in found.quota_after] == [
        ("gpuMilli", 4_000, 256_000)
    ]
    assert found.earliest is None


@COMMITS
@pytest.mark.parametrize(
    "changes",
    [
        {"gpus": 8},
        {"devices": [{"class": "gpu", "count": {"min": 2, "max": 8}}]},
        {"devices": [{"class": "gpu", "count": 12, "topology": "any"}]},
        {"gang": {"nodes": 2}, "gpus": 8},
        {"resources": {"vcpu": 100, "memoryGiB": 64}},
        {"devices": [{"anyOf": [{"class": "gpu", "count": 9}, {"class": "gpu", "count": 3}]}]},
        {"start": 1_772_442_000_000 + 24 * HOUR_MS},
    ],
)
def test_a_preview_that_fits_is_a_create_that_fits(pool, changes):
    alice = cast.caller("alice")
    found = look(pool, **changes)
    assert found.fits, found.reasons
    made = make.reservation(alice, pool, **changes)
    assert made.state == "placed"
    allocations = [(len(a.device_ids), a.resources) for a in made.allocations.all()]
    assert sorted(size for size, _ in allocations) == sorted(len(n.device_ids) for n in found.nodes)


@COMMITS
@pytest.mark.parametrize(
    "changes",
    [{"gpus": 9}, {"gang": {"nodes": 3}}, {"resources": {"vcpu": 4_000}}],
)
def test_a_preview_that_does_not_fit_is_a_create_that_is_pending(pool, changes):
    assert not look(pool, **changes).fits
    assert make.reservation(cast.caller("alice"), pool, **changes).state == "pending"


def test_blocking_bookings_say_until_when(pool, clock):
    for number, node_id in enumerate(pool_nodes(pool)):
        bookings.book(
            allocation_id=f"alloc_{number}",
            device_ids=supply.devices(node_id),
            **supply.window(hours=3 + number),
        )
    (reason,) = look(pool, gpus=2).reasons
    assert (reason.filter, reason.nodes) == (Filter.BUSY, 2)
    assert reason.until == clock.now_ms() + 3 * HOUR_MS
    assert set(reason.samples) == {node.name for node in pool_nodes(pool)}


def test_hosts_that_are_too_small_are_not_waited_for(pool):
    """What no host has, booked or not, costs no search for the day on which it would be free."""
    with CaptureQueriesContext(connection) as asked:
        found = look(pool, resources={"vcpu": 4_000})
    (reason,) = found.reasons
    assert (reason.filter, reason.needs) == (Filter.CAPABILITY, "a host with 4,000 CPUs")
    assert (reason.nodes, found.earliest) == (2, None)
    assert not any("first_ends" in query["sql"] for query in asked.captured_queries)


@COMMITS
def test_what_is_booked_of_a_host_is_waited_for(pool, clock):
    cpus = {"vcpu": 190}
    alice = cast.caller("alice")
    for _ in pool_nodes(pool):
        make.reservation(alice, pool, resources=cpus, duration="3h")
    found = look(pool, resources=cpus)
    (reason,) = found.reasons
    assert reason.filter is Filter.RESOURCES
    assert found.earliest == clock.now_ms() + 3 * HOUR_MS


def test_reasons_count_the_nodes_by_what_is_wrong_with_them(pool):
    for node in pool_nodes(pool):
        eligibility.cordon(node.pk)
    supply.node(pool)  # its agent does not say that it enforces limits
    found = look(pool)
    assert {(r.filter, r.needs, r.nodes) for r in found.reasons} == {
        (Filter.STATE, "a node that is not cordoned", 2),
        (Filter.LABELS, "label bc.dev/cap.devices.limits", 1),
    }


@pytest.mark.rule("R38")
def test_a_denial_is_a_reason_and_not_an_error(pool):
    draft = Draft(name="h100", text=H100_LIMIT.read_text(), enabled=True)
    policies.create(cast.caller("alice"), draft=draft, platform=False)
    found = look(pool, gpus=1, duration="73h")
    assert filters(found) == [Filter.POLICY]
    assert "H100s: at most 8, for at most 72 hours" in found.reasons[0].needs
    assert found.nodes, "where it would go is still said"


@pytest.mark.rule("R2")
def test_the_pools_own_limits_are_reasons_of_policy():
    pool = make.pool(maxDuration="1d", maxAhead="1d")
    found = look(pool, duration="2d")
    assert [(r.filter, r.needs) for r in found.reasons] == [(Filter.POLICY, "duration at most 1d")]


@COMMITS
@pytest.mark.rule("R30")
def test_a_quota_that_is_too_small_is_a_reason_that_says_what_is_left(pool):
    quota.set_max(cast.tenant().pk, "gpuMilli", 3_500)
    make.reservation(cast.caller("alice"), pool, gpus=1)
    found = look(pool, gpus=3)
    assert filters(found) == [Filter.QUOTA]
    assert found.reasons[0].needs == "3 GPUs, of which 2.5 are left of 3.5"
    assert found.quota_after[0].used == 4_000

    quota.set_max(cast.tenant().pk, "gpuMilli", 10**6)
    quota.set_max(cast.tenant().pk, "vcpu", 0)
    assert filters(look(pool, resources={"vcpu": 150})) == [Filter.QUOTA]
    assert look(pool).fits, "the share needs no quota of its own"


def test_all_that_is_wrong_is_said_at_once(pool):
    quota.set_max(cast.tenant().pk, "gpuMilli", 1_000)
    found = look(pool, gpus=9)
    assert filters(found) == [Filter.QUOTA, Filter.CLASS]


@pytest.mark.rule("R38")
def test_a_pool_that_is_not_offered_is_not_found(pool):
    with pytest.raises(errors.NotFound):
        look(pool, by="mallory")
    catalogue.offer(pool, cast.tenant("globex"))
    make.grant("globex", gpus=1)
    assert look(pool, by="mallory").fits


def test_a_request_that_is_wrong_is_an_error_here_too(pool):
    with pytest.raises(errors.InvalidInput):
        look(pool, duration="never")
    with pytest.raises(errors.InvalidInput):
        look(pool, binding="kubernetes")
    with pytest.raises(errors.InvalidInput):
        look(pool, offerId="cof_1")


@pytest.mark.parametrize("gpus", [1, 9])
def test_it_locks_nothing_writes_nothing_and_asks_little(pool, gpus):
    # As a web request has it: with the fingerprint of the policies that bind the tenant.
    caller = callers.for_tenant(callers.of_account(cast.account("alice")), cast.tenant().pk)
    wanted = make.request(caller, pool, gpus=gpus)
    preview.preview(caller, wanted)
    with CaptureQueriesContext(connection) as asked:
        preview.preview(caller, wanted)
    statements = [query["sql"] for query in asked if query["sql"] != "SELECT compute_now()"]
    # Pool, share, models, quota, reads.
    assert len(statements) <= 6
    for statement in statements:
        text = statement.upper()
        assert "FOR UPDATE" not in text
        assert "FOR SHARE" not in text
        assert not any(verb in text for verb in ("INSERT ", "UPDATE ", "DELETE "))


def pool_nodes(pool: Pool):
    return list(supply.Node.objects.filter(pool=pool).order_by("name"))
