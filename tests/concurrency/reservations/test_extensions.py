"""Extensions that meet each other, a rival's create, and a release (R33, R34)."""

from typing import Any

import pytest

from bettercompute import clock as clocks
from bettercompute import errors, failpoints
from bettercompute.agent.inventory import Health
from bettercompute.failpoints import Failpoint
from bettercompute.iam import policies, projection
from bettercompute.iam.models import AuthzResource
from bettercompute.wire.reservations import ExtendRequest
from nodes import assignments, inventory
from nodes.models import DeviceBooking, Node
from reservations import ending
from reservations.extending import extend_holds, extension
from reservations.extending.extend_holds import Hold
from reservations.models import ExtendHold, Reservation
from tests.support import cast, invariants, make, sessions, supply

TWO_HOURS = """
forbid (principal, action == Action::"compute:reservations:extend", resource)
when { context.durationMinutes > 120 };
"""

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("R33", "R34")]


def extend(reservation: Reservation, key: str, by: str = "1h") -> str:
    """What came of it, in a word."""
    alice = cast.caller("alice")
    wanted = ExtendRequest(tenant_id=alice.tenant_id, by=by)
    try:
        made = extension.extend(alice, wanted, reservation_id=reservation.pk, idempotency_key=key)
    except errors.ApiError as error:
        return str(error.details.get("reason", error.code))
    return "extended" if made.extended else "taken"


def test_of_two_at_once_one_is_under_way_and_the_other_is_told_to_wait(clock):
    mine = make.active(cast.caller("alice"), make.pool(), duration="1h")
    said: list[str] = []

    def meanwhile() -> None:
        failpoints.disarm()
        said.append(sessions.race(lambda: extend(mine, "second"))[0])

    failpoints.arm(Failpoint.EXTENSION_STAGED, meanwhile)
    assert extend(mine, "first") == "extended"
    assert said == ["extend-in-flight"]
    assert extend(mine, "second") == "extended"
    assert invariants.violations() == []


def test_one_whose_owner_died_is_taken_over_after_a_minute_and_cannot_come_back(clock):
    mine = make.active(cast.caller("alice"), make.pool(), duration="4h")
    said: list[str] = []

    def sleep_and_be_overtaken() -> None:
        failpoints.disarm()
        clock.advance("61s")
        said.append(sessions.race(lambda: extend(mine, "second", by="30m"))[0])

    failpoints.arm(Failpoint.EXTENSION_STAGED, sleep_and_be_overtaken)
    assert extend(mine, "first") == "extend-in-flight"
    assert said == ["extended"]
    now = Reservation.objects.get(pk=mine.pk)
    assert clocks.to_ms(now.ends_at) - clocks.to_ms(mine.ends_at) == 1_800_000
    assert projection.attributes_of(mine.pk)["duration_minutes"] == 270
    assert not ExtendHold.objects.exists()
    assert invariants.violations() == []


@pytest.mark.rule("C9")
def test_an_extension_and_a_create_for_the_same_time_never_both_have_it(clock):
    alice = cast.caller("alice")
    pool = make.pool(nodes=1, gpus=1)
    mine = make.active(alice, pool, duration="1h")
    start = clocks.to_ms(mine.ends_at)

    outcome = sessions.race(
        lambda: extend(mine, "longer"),
        lambda: make.reservation(alice, pool, start=start, duration="1h").state,
    )

    assert sorted(outcome) in (["extended", "pending"], ["placed", "taken"])
    assert DeviceBooking.objects.count() == 2
    assert invariants.violations() == []


def test_one_that_is_released_meanwhile_stays_released(clock):
    alice = cast.caller("alice")
    mine = make.active(alice, make.pool(), duration="1h")

    def meanwhile() -> None:
        failpoints.disarm()
        sessions.race(lambda: ending.release(alice, reservation_id=mine.pk))

    failpoints.arm(Failpoint.EXTENSION_STAGED, meanwhile)
    assert extend(mine, "late") == "INVALID_STATE"
    assert Reservation.objects.get(pk=mine.pk).state == "released"
    assert AuthzResource.objects.get(pk=mine.pk).pending is None
    assert invariants.violations() == []


def test_the_same_key_twice_at_once_extends_once_and_both_hear_of_it(clock, monkeypatch):
    mine = make.active(cast.caller("alice"), make.pool(), duration="1h")
    made_before = extension._made_before
    said: list[object] = []

    def meanwhile(*args: object) -> bool:
        """The other one comes and goes between this one's question and its hold."""
        known = made_before(*args)
        monkeypatch.setattr(extension, "_made_before", made_before)
        said.extend(sessions.race(lambda: extend(mine, "same")))
        return known

    monkeypatch.setattr(extension, "_made_before", meanwhile)
    assert [extend(mine, "same"), *said] == ["extended", "extended"]
    now = Reservation.objects.get(pk=mine.pk)
    assert clocks.to_ms(now.ends_at) - clocks.to_ms(mine.ends_at) == 3_600_000
    assert invariants.violations() == []


def test_a_repeat_is_answered_with_the_reservation_as_the_first_left_it(clock, monkeypatch):
    alice = cast.caller("alice")
    mine = make.active(alice, make.pool(), duration="1h")
    made_before = extension._made_before

    def meanwhile(*args: object) -> bool:
        monkeypatch.setattr(extension, "_made_before", made_before)
        sessions.race(lambda: extend(mine, "same"))
        return made_before(*args)

    monkeypatch.setattr(extension, "_made_before", meanwhile)
    wanted = ExtendRequest(tenant_id=alice.tenant_id, by="1h")
    made = extension.extend(alice, wanted, reservation_id=mine.pk, idempotency_key="same")
    assert made.extended
    assert made.reservation.ends_at == Reservation.objects.get(pk=mine.pk).ends_at


@pytest.mark.rule("C2")
def test_one_that_comes_right_behind_another_is_no_conflict(clock, monkeypatch):
    mine = make.active(cast.caller("alice"), make.pool(), duration="1h")
    made_before = extension._made_before

    def meanwhile(*args: object) -> bool:
        monkeypatch.setattr(extension, "_made_before", made_before)
        assert sessions.race(lambda: extend(mine, "first")) == ["extended"]
        return made_before(*args)

    monkeypatch.setattr(extension, "_made_before", meanwhile)
    assert extend(mine, "second") == "extended"
    now = Reservation.objects.get(pk=mine.pk)
    assert clocks.to_ms(now.ends_at) - clocks.to_ms(mine.ends_at) == 7_200_000


@pytest.mark.rule("R12")
def test_a_refusal_right_behind_an_extension_does_not_undo_what_policies_know(clock, monkeypatch):
    alice = cast.caller("alice")
    policies.create(alice, draft=policies.Draft("two-hours", TWO_HOURS))
    mine = make.active(alice, make.pool(), duration="1h")
    take = extend_holds.take

    def meanwhile(*args: Any, **kwargs: Any) -> Hold:
        monkeypatch.setattr(extend_holds, "take", take)
        assert sessions.race(lambda: extend(mine, "first")) == ["extended"]
        return take(*args, **kwargs)

    monkeypatch.setattr(extend_holds, "take", meanwhile)
    assert extend(mine, "second", by="61m") == "ACCESS_DENIED"
    assert projection.attributes_of(mine.pk)["duration_minutes"] == 120
    assert AuthzResource.objects.get(pk=mine.pk).pending is None


@pytest.mark.rule("C19")
def test_one_that_meets_a_report_of_the_hosts_inventory_does_not_deadlock(clock, monkeypatch):
    mine = make.active(cast.caller("alice"), make.pool(nodes=1), duration="1h")
    (held,) = mine.allocations.all()
    host = supply.host(Node.objects.get(pk=held.node_id).name)
    sick = host.gpus[0].model_copy(update={"health": Health.UNHEALTHY, "health_reason": "xid 79"})
    report = host.model_copy(update={"gpus": (sick, *host.gpus[1:])})
    prolong = assignments.prolong

    with sessions.opened("host") as (agent,):

        def meanwhile(*args: Any, **kwargs: Any) -> None:
            """All is booked, and nothing committed yet."""
            steps.append(agent.start(lambda: inventory.apply(held.node_id, report)))
            steps[0].must_block()
            prolong(*args, **kwargs)

        steps: list[sessions.Step] = []
        monkeypatch.setattr(assignments, "prolong", meanwhile)
        assert extend(mine, "longer") == "extended"
        steps[0].result()
    assert invariants.violations() == []
