import pytest

from bettercompute import clock as clock_module
from bettercompute import errors
from bettercompute.iam.models import AuthzChange, AuthzResource, Policy
from nodes.models import Assignment, DeviceBooking, ReportedState
from outbox.models import Event
from pools.models import QuotaCharge, QuotaUsage
from reservations import admission, queries
from reservations.models import Allocation, Reservation
from tests.support import cast, make, supply

pytestmark = pytest.mark.django_db(transaction=True)

FORBID_MANY = """
@id("at-most-four")
forbid (principal, action == Action::"compute:reservations:create", resource)
when { context.gpus > 4 };
"""


def used(slug: str = "acme") -> int:
    return QuotaUsage.objects.get(tenant__slug=slug, resource="gpuMilli").used


@pytest.mark.rule("R1", "R10", "R5", "C14")
def test_an_allowed_request_that_fits_is_placed_at_once(clock):
    pool = make.pool()
    reservation = make.reservation(cast.caller("alice"), pool, gpus=4, duration="8h")

    assert reservation.state == "placed"
    assert reservation.starts_at == clock.now()
    assert clock_module.to_ms(reservation.ends_at) == clock.now_ms() + 8 * 3_600_000
    assert DeviceBooking.objects.count() == 4
    assert len(Allocation.objects.get().device_ids) == 4
    assert Assignment.objects.get().owner_key == reservation.pk
    placed = Event.objects.get(type="reservation.placed")
    assert placed.subject == f"reservation/{reservation.pk}"
    assert placed.data["start"] == clock.now_ms()
    assert used() == 4_000


@pytest.mark.rule("R10", "C23")
def test_the_draft_is_told_to_the_policy_engine_as_a_whole_state():
    reservation = make.reservation(cast.caller("alice"), make.pool(), gpus=2)

    resource = AuthzResource.objects.get(pk=reservation.pk)
    assert resource.attributes["gpus"] == 2
    assert AuthzChange.objects.get(resource_id=reservation.pk).state["attributes"]["gpus"] == 2


@pytest.mark.rule("R5")
@pytest.mark.parametrize("gpus", [3, 9])
def test_what_a_create_answers_is_what_a_get_answers(gpus):
    alice = cast.caller("alice")
    wanted = make.request(alice, make.pool(gpus=8), gpus=gpus)
    admitted = admission.admit(alice, wanted, idempotency_key="k")
    assert admitted.shown == queries.get(alice, admitted.reservation_id)


@pytest.mark.rule("R8", "C28")
def test_the_same_key_and_request_reach_the_same_reservation():
    pool, alice = make.pool(), cast.caller("alice")
    wanted = make.request(alice, pool, duration="2h")
    same = make.request(alice, pool, duration=7_200_000, binding="hold")

    first = admission.admit(alice, wanted, idempotency_key="k")
    again = admission.admit(alice, same, idempotency_key="k")

    assert first.created
    assert again == admission.Admitted(first.reservation_id, created=False)
    assert used() == 1_000
    assert DeviceBooking.objects.count() == 1


@pytest.mark.rule("R8")
@pytest.mark.case(33)
def test_the_same_key_for_another_request_is_a_conflict_that_names_the_first():
    pool, alice = make.pool(), cast.caller("alice")
    first = make.reservation(alice, pool, idempotency_key="k", gpus=1)

    with pytest.raises(errors.Conflict) as refused:
        make.reservation(alice, pool, idempotency_key="k", gpus=2)

    assert refused.value.details["reservationId"] == first.pk


@pytest.mark.rule("R6", "R8")
def test_the_same_key_of_another_person_is_another_reservation():
    pool = make.pool()
    hers = make.reservation(cast.caller("alice"), pool, idempotency_key="k")
    his = make.reservation(cast.caller("bob"), pool, idempotency_key="k")
    assert hers.pk != his.pk


@pytest.mark.rule("R8")
def test_a_retry_after_its_start_has_passed_still_finds_the_reservation(clock):
    pool, alice = make.pool(), cast.caller("alice")
    start = clock.now_ms() + 60_000
    first = make.reservation(alice, pool, idempotency_key="k", start=start)
    clock.advance("2h")
    again = admission.admit(alice, make.request(alice, pool, start=start), idempotency_key="k")
    assert again == admission.Admitted(first.pk, created=False)


@pytest.mark.rule("R1", "R10", "R8", "R38")
def test_a_denied_request_is_kept_and_its_key_stays_refused():
    Policy.objects.create(name="few", text=FORBID_MANY)
    pool, alice = make.pool(), cast.caller("alice")

    with pytest.raises(errors.AccessDenied) as refused:
        make.reservation(alice, pool, idempotency_key="k", gpus=5)
    assert "at-most-four" in refused.value.details["decision"]["policies"][0]
    Policy.objects.all().delete()
    with pytest.raises(errors.AccessDenied):
        make.reservation(alice, pool, idempotency_key="k", gpus=5)

    assert Reservation.objects.get().state == "denied"
    assert used() == 0


@pytest.mark.rule("C14", "R9", "R10")
def test_what_exceeds_the_quota_stays_a_draft_that_nobody_sees_and_is_decided_again():
    pool, alice = make.pool(quota_gpus=1), cast.caller("alice")

    with pytest.raises(errors.QuotaExceeded) as refused:
        make.reservation(alice, pool, idempotency_key="k", gpus=2)
    draft = Reservation.objects.get()
    assert refused.value.details["max"] == 1_000
    assert draft.state == "draft"
    with pytest.raises(errors.NotFound):
        queries.get(alice, draft.pk)
    assert queries.page(alice, queries.Filters(scope="all")).items == ()

    make.grant("acme", gpus=2)
    assert make.reservation(alice, pool, idempotency_key="k", gpus=2).state == "placed"


@pytest.mark.rule("C18", "R11", "R23")
def test_what_does_not_fit_waits_pending_and_keeps_its_charge():
    pool, alice = make.pool(gpus=8), cast.caller("alice")
    make.reservation(alice, pool, gpus=8)
    waiting = make.reservation(alice, pool, gpus=1)

    assert waiting.state == "pending"
    assert waiting.conditions[0]["type"] == "Unschedulable"
    assert used() == 9_000
    assert QuotaCharge.objects.filter(owner_key=waiting.pk).exists()
    assert DeviceBooking.objects.count() == 8


@pytest.mark.rule("R11", "R24")
def test_what_no_node_could_serve_is_told_so_at_once_and_waits_for_other_hardware():
    pool, alice = make.pool(nodes=2, gpus=8), cast.caller("alice")
    make.reservation(alice, pool, gpus=8)
    waiting = make.reservation(alice, pool, gpus=16)

    (why,) = waiting.conditions
    assert (waiting.state, why["type"], why["reason"]) == ("pending", "Unschedulable", "NeverFits")
    assert "It needs 16 GPUs; the most is 8 GPUs on a node" in why["message"]
    assert "counts against the quota" in why["message"]
    assert used() == 24_000
    (reason,) = queries.get(alice, waiting.pk).waiting.reasons
    assert reason.most == "8 GPUs on a node"

    make.node(pool, gpus=16, vcpu=400, memory_gib=4_100)
    make.look_at_pool(pool)
    waiting.refresh_from_db()
    assert (waiting.state, waiting.conditions) == ("placed", [])


@pytest.mark.rule("R3", "C14")
def test_a_range_takes_what_fits_and_is_charged_for_that(clock):
    pool, alice = make.pool(gpus=8), cast.caller("alice")
    make.reservation(alice, pool, gpus=5)
    ranged = make.look(make.reservation(alice, pool, gpus={"min": 1, "max": 8}))
    assert len(ranged.allocations.get().device_ids) == 3
    assert used() == 13_000, "until it is active it may be placed again, and take more"
    make.report(ranged, ReportedState.BOUND)
    make.look(ranged)
    assert used() == 8_000
    make.look(ranged)
    assert used() == 8_000


@pytest.mark.rule("R30")
def test_the_share_of_the_host_is_booked_and_recorded():
    pool = make.pool(nodes=1, gpus=8)  # 194 vCPU less 2 kept for the host, 2,048 GiB
    reservation = make.reservation(cast.caller("alice"), pool, gpus=2)

    assert reservation.host_share == {"vcpu": 48, "memoryGiB": 512}
    assert Allocation.objects.get().resources == {"vcpu": 48, "memoryGiB": 512}
    assert Assignment.objects.get().limits == {"cpuMillis": 48_000, "memoryBytes": 512 * 1024**3}


@pytest.mark.rule("R38")
@pytest.mark.case(24)
def test_another_tenants_pool_cannot_be_booked():
    pool = make.pool()
    make.grant("globex", gpus=8)
    with pytest.raises(errors.NotFound):
        make.reservation(cast.caller("mallory"), pool)
    assert not Reservation.objects.exists()


@pytest.mark.rule("R2")
@pytest.mark.parametrize("limit", [{"maxDuration": "30m"}, {"maxAhead": "1h"}])
def test_a_pools_own_limits_deny(clock, limit):
    pool = make.pool(**limit)
    with pytest.raises(errors.AccessDenied):
        make.reservation(cast.caller("alice"), pool, start=clock.now_ms() + 2 * 3_600_000)


@pytest.mark.rule("R13")
def test_the_queued_placer_answers_queued_and_places_by_itself():
    pool = make.pool()
    pool.placer = "queued"
    pool.save()
    queued = make.reservation(cast.caller("alice"), pool)
    assert queued.state == "pending"
    assert queries.answer(queued.pk).operation.state == "running"

    make.look_at_pool(pool)

    queued.refresh_from_db()
    assert queued.state == "placed"


@pytest.mark.rule("C9", "R4")
@pytest.mark.case(14)
def test_back_to_back_windows_on_the_same_devices_both_fit(clock):
    pool, alice = make.pool(gpus=8), cast.caller("alice")
    start = clock.now_ms() + 3_600_000
    first = make.reservation(alice, pool, gpus=8, start=start, duration="1h")
    second = make.reservation(alice, pool, gpus=8, start=start + 3_600_000, duration="1h")
    assert [first.state, second.state] == ["placed", "placed"]
    assert second.starts_at == first.ends_at


def test_supply_of_another_pool_is_never_taken():
    pool = make.pool(nodes=0)
    supply.node()  # of a pool of its own
    assert make.reservation(cast.caller("alice"), pool).state == "pending"
