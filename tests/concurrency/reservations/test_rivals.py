"""Rivals for the last of something, through admission; and the same races without the guard."""

import threading
from collections.abc import Callable, Iterator

import pytest
from django.db import connection

from bettercompute import errors, failpoints
from bettercompute.failpoints import Failpoint
from nodes import bookings, checks, devices, eligibility
from nodes.models import DeviceBooking, Mode, Node
from pools import quota, snapshot
from pools.models import Offer, QuotaCharge, QuotaUsage
from reservations import admission, ending
from reservations.models import Reservation
from tests.support import cast, invariants, make, races, sessions, supply

pytestmark = pytest.mark.django_db(transaction=True)

HOUR_MS = 3_600_000

# So little of the host comes with a card that only the card itself is ever the last one.
CHEAP = {"perGpu": {"vcpu": 1, "memoryGiB": 1}}


def creates(pool, *, rivals: int, **changes) -> list[Callable[[], str]]:
    """So many people who ask for the same at once; each answers the state it got."""
    alice = cast.caller("alice")

    def create(number: int) -> Callable[[], str]:
        return lambda: (
            make.reservation(alice, pool, idempotency_key=f"rival-{number}", **changes).state
        )

    return [create(number) for number in range(rivals)]


@pytest.mark.case(1, 12)
@pytest.mark.rule("C9", "C17", "C18")
def test_of_four_who_planned_the_same_last_card_exactly_one_gets_it():
    pool = make.pool(nodes=1, gpus=1, **CHEAP)
    with races.meeting_at(Failpoint.PLACEMENT_PLANNED, parties=4):
        states = sessions.race(*creates(pool, rivals=4))

    assert sorted(states) == ["pending", "pending", "pending", "placed"]
    assert DeviceBooking.objects.count() == 1
    assert invariants.violations() == []


@pytest.mark.case(1)
@pytest.mark.rule("C9")
def test_whoever_wants_another_device_does_not_wait_for_them():
    pool = make.pool(nodes=1, gpus=1)
    other = make.pool(nodes=1, gpus=1)
    alice, mallory = cast.caller("alice"), cast.caller("mallory")
    Offer.objects.create(pool=other, tenant=cast.tenant("globex"))
    make.grant("globex", gpus=8)
    with sessions.opened("holder", "rival", "other") as (holder, rival, bystander):
        holder.begin()
        (device,) = Node.objects.get(pool=pool).devices.values_list("pk", flat=True)
        window = supply.window()
        holder.run(lambda: bookings.book(allocation_id="alloc_h", device_ids=[device], **window))
        waits = rival.start(lambda: make.reservation(alice, pool).state)
        waits.must_block()
        assert bystander.run(lambda: make.reservation(mallory, other).state) == "placed"
        holder.rollback()
        assert waits.result() == "placed"


@pytest.mark.case(5)
@pytest.mark.rule("R16", "C9")
def test_of_two_gangs_for_all_nodes_one_runs_and_the_other_holds_nothing():
    pool = make.pool(nodes=3, gpus=2)
    with races.meeting_at(Failpoint.PLACEMENT_PLANNED, parties=2):
        states = sessions.race(*creates(pool, rivals=2, gpus=2, gang={"nodes": 3}))

    assert sorted(states) == ["pending", "placed"]
    assert DeviceBooking.objects.count() == 6
    assert invariants.violations() == []


@pytest.mark.case(11)
@pytest.mark.rule("C10", "C11")
def test_a_card_and_a_slice_of_it_asked_for_in_a_burst_are_never_both_granted():
    pool = make.pool(nodes=1, gpus=1)
    (gpu,) = Node.objects.get().devices.values_list("pk", flat=True)
    layout = [("3g.40gb", 0), ("3g.40gb", 4)]

    def cut() -> str:
        devices.set_mode(gpu, mode=Mode.MIG, layout=layout, window_seconds=1)
        return "cut"

    slices = [{"class": "gpu.mig", "profile": "3g.40gb", "count": 1}]
    racers = creates(pool, rivals=3)
    racers += [cut] + [
        lambda key=key: (
            make.reservation(cast.caller("alice"), pool, devices=slices, idempotency_key=key).state
        )
        for key in ("slice-1", "slice-2")
    ]
    sessions.race(*racers)
    assert invariants.violations() == []


@pytest.mark.case(4)
@pytest.mark.rule("C12", "C14")
def test_two_holders_of_one_host_that_let_go_at_once_give_back_everything():
    pool, alice = make.pool(nodes=1, gpus=8), cast.caller("alice")
    held = [make.reservation(alice, pool, gpus=4) for _ in range(2)]

    def release(reservation: Reservation) -> Callable[[], str]:
        return lambda: ending.release(alice, reservation_id=reservation.pk).state

    assert sessions.race(*map(release, held)) == ["released", "released"]
    assert invariants.held() == []
    assert invariants.violations() == []
    assert make.reservation(alice, pool, gpus=8).state == "placed"


@pytest.mark.case(4)
@pytest.mark.rule("C12", "C14", "R10")
def test_a_create_that_fails_half_way_leaves_nothing_and_its_key_tries_again():
    pool, alice = make.pool(nodes=1, gpus=8), cast.caller("alice")

    def crash() -> None:
        raise RuntimeError("half-way")

    failpoints.arm(Failpoint.PLACEMENT_BOOKED, crash)
    with pytest.raises(RuntimeError):
        make.reservation(alice, pool, gpus=8, idempotency_key="k")
    failpoints.disarm()

    assert invariants.held() == []
    assert DeviceBooking.objects.count() == 0
    assert Reservation.objects.get().state == "draft"
    assert make.reservation(alice, pool, gpus=8, idempotency_key="k").state == "placed"


@pytest.mark.case(33)
@pytest.mark.rule("R8", "C28")
def test_of_fifty_identical_requests_at_once_one_creates_and_all_reach_it():
    pool, alice = make.pool(nodes=1, gpus=8), cast.caller("alice")
    wanted = make.request(alice, pool)
    same = races.Operation(
        "create", lambda: admission.admit(alice, wanted, idempotency_key="the same")
    )
    outcomes = races.crowd([same] * 50)

    assert [outcome for outcome in outcomes if outcome.error] == []
    assert len({outcome.answer.reservation_id for outcome in outcomes}) == 1
    assert sum(outcome.answer.created for outcome in outcomes) == 1
    assert Reservation.objects.get().state == "placed"
    assert QuotaUsage.objects.get(resource="gpuMilli").used == 1_000


@pytest.mark.case(33)
@pytest.mark.rule("R8", "A2")
def test_two_identical_posts_that_raced_to_the_lock_are_one_201_and_one_200():
    pool = make.pool(nodes=1, gpus=8)
    apis = [cast.api("alice"), cast.api("alice")]
    body = {
        "tenantId": cast.tenant().pk,
        "poolId": pool.pk,
        "devices": [{"class": "gpu", "count": 1}],
        "duration": "1h",
        "idempotencyKey": "the same",
    }
    with races.meeting_at(Failpoint.PLACEMENT_PLANNED, parties=2):
        answers = sessions.race(*(lambda a=api: a.post("/reservations", body) for api in apis))

    assert sorted(answer.status_code for answer in answers) == [200, 201]
    assert len({answer.json()["id"] for answer in answers}) == 1


@pytest.mark.case(33, 21)
@pytest.mark.rule("R8", "C28")
def test_a_process_killed_behind_the_commit_answers_nobody_and_the_retry_finds_it():
    pool, alice = make.pool(nodes=1, gpus=8), cast.caller("alice")

    def killed() -> None:
        raise SystemExit

    failpoints.arm(Failpoint.PLACEMENT_COMMITTED, killed)
    with pytest.raises(SystemExit):
        make.reservation(alice, pool, idempotency_key="k")
    failpoints.disarm()

    again = admission.admit(alice, make.request(alice, pool), idempotency_key="k")
    assert again.created is False
    assert Reservation.objects.get().state == "placed"
    assert DeviceBooking.objects.count() == 1


@pytest.mark.case(13)
@pytest.mark.rule("R24", "R35")
def test_who_starts_the_second_another_ends_gets_the_device(clock):
    pool, alice = make.pool(nodes=1, gpus=1), cast.caller("alice")
    first = make.active(alice, pool, duration="1h")
    second = make.reservation(alice, pool, start=clock.now_ms() + HOUR_MS, duration="1h")
    clock.advance("1h")
    # The start is looked at first; it waits for the end, and is not failed by it.
    assert make.look(second).state == "binding"
    assert make.look(first).state == "released"
    make.report(first, "released")
    make.look(first)
    second = make.look(second)
    make.report(second, "bound")
    assert make.look(second).state == "active"
    assert invariants.violations() == []


# --- the same races without the guard -------------------------------------------------------------


@pytest.fixture
def without_exclusion(monkeypatch) -> Iterator[None]:
    """Every statement on a copy of the table of bookings that lacks the exclusion constraint."""
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE unguarded_bookings (LIKE device_bookings INCLUDING DEFAULTS"
            " INCLUDING IDENTITY INCLUDING CONSTRAINTS)"
        )
    for statements in (bookings.BOOKINGS, snapshot.SNAPSHOT, checks.CHECKS_SQL):
        for name, text in statements.texts.items():
            if "device_bookings" in text:
                replaced = text.replace("device_bookings", "unguarded_bookings")
                monkeypatch.setitem(statements.texts, name, replaced)
    yield
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE unguarded_bookings")


@pytest.mark.rule("C9", "C16")
@pytest.mark.usefixtures("without_exclusion")
def test_without_the_exclusion_constraint_the_last_card_is_given_four_times():
    """The negative control: planner, locks and savepoints alone do not prevent it."""
    pool = make.pool(nodes=1, gpus=1, **CHEAP)
    with races.meeting_at(Failpoint.PLACEMENT_PLANNED, parties=4):
        states = sessions.race(*creates(pool, rivals=4))

    assert states == ["placed"] * 4
    assert {f.check for f in checks.overlapping_bookings()} == {"bookings.overlap"}


@pytest.mark.rule("C14", "C16")
def test_the_quota_admits_as_many_as_it_has_room_for():
    pool = make.pool(nodes=1, gpus=8, quota_gpus=3)
    with races.meeting_at(Failpoint.PLACEMENT_PLANNED, parties=6):
        outcomes = sessions.race(*creates(pool, rivals=6))

    refused = [outcome for outcome in outcomes if isinstance(outcome, errors.QuotaExceeded)]
    assert len(refused) == 3
    assert QuotaUsage.objects.get(resource="gpuMilli").used == 3_000


@pytest.mark.rule("C14", "C16")
def test_a_quota_that_is_read_checked_and_written_admits_too_many(monkeypatch):
    """The negative control: each saw room, and each wrote what it had computed."""
    pool = make.pool(nodes=1, gpus=8, quota_gpus=3)
    gate = threading.Barrier(6)

    def charge(tenant_id: str, owner_key: str, amounts: quota.Amounts, **whose: str | None) -> None:
        row = QuotaUsage.objects.get(tenant_id=tenant_id, resource="gpuMilli")
        if row.used + amounts["gpuMilli"] > row.max:
            raise errors.QuotaExceeded
        gate.wait(timeout=races.GATE_SECONDS_MAX)
        row.used += amounts["gpuMilli"]
        row.save()
        QuotaCharge.objects.create(
            owner_key=owner_key,
            tenant_id=tenant_id,
            resource="gpuMilli",
            amount=amounts["gpuMilli"],
            **whose,
        )

    monkeypatch.setattr(quota, "charge", charge)
    outcomes = sessions.race(*creates(pool, rivals=6))

    assert {"placed", "pending"} >= set(outcomes), "six, of three that the quota admits"
    assert [f.split(":")[0] for f in invariants.violations()] == ["quota.charges"]


def _cordon_behind_the_placers_look(pool) -> tuple[str, bool, list[str]]:
    """Cordon the only node while a placer has looked at it and not committed.

    Answers what the placer got, whether the operator had to wait, and the order of the commits.
    """
    alice, node_id = cast.caller("alice"), Node.objects.get().pk
    looked, go_on = threading.Event(), threading.Event()
    order: list[str] = []

    def pause() -> None:
        looked.set()
        assert go_on.wait(races.GATE_SECONDS_MAX)

    def place() -> str:
        state = make.reservation(alice, pool).state
        order.append("placed")
        return state

    def cordon() -> None:
        eligibility.cordon(node_id)
        order.append("cordoned")

    failpoints.arm(Failpoint.PLACEMENT_BOOKED, pause)
    with sessions.opened("placer", "operator") as (placer, operator):
        placing = placer.start(place)
        assert looked.wait(races.GATE_SECONDS_MAX)
        cordoning = operator.start(cordon)
        try:
            cordoning.must_block()
            waited = True
        except AssertionError:
            waited = False
        go_on.set()
        cordoning.result()
        return placing.result(), waited, order


@pytest.mark.rule("C13", "C16")
def test_a_cordon_waits_for_a_placement_that_has_looked():
    pool = make.pool(nodes=1, gpus=1)
    assert _cordon_behind_the_placers_look(pool)[:2] == ("placed", True)


@pytest.mark.rule("C13", "C16")
def test_a_placer_that_only_looks_places_on_a_cordoned_node(monkeypatch):
    """The negative control: without FOR SHARE the cordon commits first, and is not seen."""
    races.without(monkeypatch, eligibility.ELIGIBILITY, "lock_nodes", "FOR SHARE")
    pool = make.pool(nodes=1, gpus=1)
    state, waited, order = _cordon_behind_the_placers_look(pool)
    assert (state, waited, order) == ("placed", False, ["cordoned", "placed"])
