"""What is handed over and not used ends, where its pool says so: never by mistake."""

from datetime import timedelta
from typing import Any

import pytest

from bettercompute import clock as clocks
from nodes import eligibility, hearing, reports
from nodes.models import Assignment, Node, NodeCondition, NodeSession, ReportedState
from nodes.protocol import messages
from nodes.protocol.messages import ReportEntry, ReportKind
from outbox.models import Event
from pools.models import Pool, QuotaUsage
from reservations import reconciler
from reservations.models import Reservation
from tests.support import cast, invariants, make

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("R24")]

CAPABILITIES = {"bc.dev/cap.devices.limits": "true", "bc.dev/cap.allocations.use": "true"}


def pool_with_rule(**changes: Any) -> Pool:
    return make.pool(**{"gpus": 8, "noShow": {"afterMinutes": 30}, **changes})


def active(pool: Pool, *, telling: bool = True, **changes: Any) -> Reservation:
    for node in Node.objects.filter(pool_id=pool.pk) if telling else ():
        eligibility.set_system_labels(node.pk, CAPABILITIES)
    return make.active(cast.caller("alice"), pool, duration="8h", **changes)


def conditions(reservation: Reservation) -> list[str]:
    return [each["type"] for each in reservation.conditions]


def use(reservation: Reservation, *, node_id: str | None = None) -> None:
    """An agent says that a workload uses the devices, as the gateway stores it."""
    assignment = Assignment.objects.filter(owner_key=reservation.pk).first()
    assert assignment is not None
    node_id = node_id or assignment.node_id
    body = {
        "nodeId": node_id,
        "seq": 1,
        "kind": ReportKind.ALLOCATION_USED,
        "allocationId": assignment.allocation_id,
    }
    entry = ReportEntry(seq=1, kind=ReportKind.ALLOCATION_USED, body=messages.canonical(body))
    now = clocks.now()
    NodeSession.objects.get_or_create(
        node_id=node_id,
        defaults={
            "epoch": 1,
            "token_hash": "",
            "gateway_id": "",
            "connected_at": now,
            "last_seen_at": now,
        },
    )
    answer = reports.apply(node_id, epoch=1, entries=[entry])
    assert answer.rejected == []


def test_what_nobody_uses_is_warned_and_then_ends(clock):
    reservation = make.look(active(pool_with_rule(), gpus=2))
    assert conditions(reservation) == []
    clock.advance("30m")
    reservation = make.look(reservation)
    assert conditions(reservation) == ["NoShow"]
    warning = Event.objects.get(type="reservation.no-show-warning")
    assert warning.data["end"] == clocks.to_ms(clock.now() + timedelta(minutes=10))

    clock.advance("9m")
    assert make.look(reservation).state == "active"
    clock.advance("1m")
    reservation = make.look(reservation)
    assert (reservation.state, reservation.reason) == ("released", "no-show")
    assert reservation.ends_at == clock.now()
    assert QuotaUsage.objects.get(resource="gpuMilli").used == 0
    assert Event.objects.get(type="reservation.released").data["reason"] == "no-show"
    make.report(reservation, ReportedState.RELEASED)
    make.look(reservation)
    assert invariants.violations() == []


def test_what_is_used_stays_even_if_only_after_the_warning(clock):
    reservation = active(pool_with_rule())
    clock.advance("30m")
    reservation = make.look(reservation)
    assert conditions(reservation) == ["NoShow"]
    use(reservation)
    reservation = make.look(reservation)
    assert conditions(reservation) == []
    clock.advance("5h")
    reservation = make.look(reservation)
    assert (reservation.state, conditions(reservation)) == ("active", [])


def test_one_part_of_a_gang_that_is_used_is_enough(clock):
    reservation = active(pool_with_rule(nodes=2), gpus=8, gang={"nodes": 2})
    use(reservation)
    clock.advance("2h")
    assert conditions(make.look(reservation)) == []


def test_a_pool_without_the_rule_ends_nothing(clock):
    reservation = active(make.pool(gpus=8))
    clock.advance("7h")
    reservation = make.look(reservation)
    assert (reservation.state, conditions(reservation)) == ("active", [])


def test_a_node_that_cannot_tell_is_not_taken_to_say_no(clock):
    reservation = active(pool_with_rule(), telling=False)
    clock.advance("7h")
    reservation = make.look(reservation)
    assert (reservation.state, conditions(reservation)) == ("active", [])


@pytest.mark.rule("C38", "C36")
def test_a_silent_node_may_have_seen_what_it_could_not_tell(clock):
    reservation = active(pool_with_rule())
    clock.advance("30m")
    reservation = make.look(reservation)
    node_id = Assignment.objects.get().node_id
    NodeCondition.objects.create(
        node_id=node_id, type="Disconnected", reason="Silent", since=clock.now()
    )
    clock.advance("20m")
    reservation = make.look(reservation)
    assert (reservation.state, conditions(reservation)) == ("active", [])


@pytest.mark.rule("C38")
def test_time_in_which_we_did_not_listen_does_not_count(clock):
    reservation = active(pool_with_rule())
    node_id = Assignment.objects.get().node_id
    now = clock.now()
    NodeSession.objects.create(
        node_id=node_id,
        epoch=1,
        token_hash="",
        gateway_id="gateway",
        connected_at=now,
        last_seen_at=now,
    )
    hearing.beat("gateway")
    clock.advance("30m")  # the gateway is down from here on
    reservation = make.look(reservation)
    assert conditions(reservation) == [], "we have not listened for as long"

    hearing.beat("gateway")
    for _ in range(121):
        clock.advance("15s")
        hearing.beat("gateway")
    assert conditions(make.look(reservation)) == ["NoShow"]


def test_what_a_node_has_let_go_of_is_not_its_holders_no_show(clock):
    reservation = active(pool_with_rule())
    make.report(reservation, ReportedState.RELEASED, reason="lost")
    make.look(reservation)
    clock.advance("2h")
    reservation = make.look(reservation)
    assert reservation.state == "active"
    assert "NoShow" not in conditions(reservation)


@pytest.mark.rule("N7", "R26")
def test_another_nodes_word_does_not_count(clock):
    pool = pool_with_rule(nodes=2)
    reservation = active(pool)
    mine = Assignment.objects.get().node_id
    other = Node.objects.filter(pool_id=pool.pk).exclude(pk=mine).get()
    use(reservation, node_id=other.pk)
    assert Assignment.objects.get().used_at is None
    use(reservation)
    first = Assignment.objects.get().used_at
    assert first == clock.now()


def test_the_look_comes_when_it_is_due(clock):
    reservation = active(pool_with_rule(noShow={"afterMinutes": 7, "warnMinutes": 3}))
    outcome = reconciler.reconcile(reservation.pk, make.fence)
    assert outcome.instant == clock.now() + timedelta(minutes=7)
    clock.advance("7m")
    outcome = reconciler.reconcile(reservation.pk, make.fence)
    assert outcome.instant == clock.now() + timedelta(minutes=3)
