"""What changes between the plan and the lock is judged again under the lock (C13)."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from bettercompute import failpoints
from bettercompute.failpoints import Failpoint
from nodes import devices, eligibility
from nodes.models import DeviceBooking, Mode, Node
from pools.models import Pool
from pools.planner.plan import Plan
from reservations import placement
from tests.support import cast, invariants, make, sessions, supply

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("C13", "C18")]

NO_SCHEDULE = [{"key": "maintenance", "effect": "NoSchedule"}]


def cordon(node: Node) -> None:
    eligibility.cordon(node.pk)


def taint(node: Node) -> None:
    eligibility.taint(node.pk, NO_SCHEDULE)


def silence(node: Node) -> None:
    eligibility.mark_unreachable(node.pk)


def quarantine(node: Node) -> None:
    eligibility.quarantine_all(supply.devices(node), reason="xid 79")


def cut(node: Node) -> None:
    for gpu in supply.devices(node):
        devices.set_mode(gpu, mode=Mode.SLOTS, slots=2, window_seconds=1)


def relabel(node: Node) -> None:
    eligibility.set_labels(node.pk, {"zone": "b"})


def lose_capability(node: Node) -> None:
    eligibility.set_system_labels(node.pk, {})


CHANGES: list[tuple[Callable[[Node], None], Mapping[str, Any]]] = [
    (cordon, {}),
    (taint, {}),
    (silence, {}),
    (quarantine, {}),
    (cut, {}),
    (relabel, {"devices": [{"class": "gpu", "count": 1, "selector": {"zone": "a"}}]}),
    (lose_capability, {"resources": {"vcpu": 64}}),
]


@pytest.fixture
def pool() -> Pool:
    made = make.pool(nodes=1, gpus=2)
    eligibility.set_labels(Node.objects.get().pk, {"zone": "a"})
    return made


@pytest.mark.parametrize(
    ("change", "asked"), CHANGES, ids=lambda each: getattr(each, "__name__", "")
)
def test_a_node_that_changed_behind_the_plan_is_not_placed_on(pool, clock, change, asked):
    def meanwhile() -> None:
        failpoints.disarm()
        change(Node.objects.get())
        clock.advance("2s")  # the window of a mode change is over: only the mode itself decides

    failpoints.arm(Failpoint.PLACEMENT_PLANNED, meanwhile)
    made = make.reservation(cast.caller("alice"), pool, **asked)

    assert made.state == "pending"
    assert not DeviceBooking.objects.exclude(allocation_id__startswith="cmd_").exists()
    assert invariants.violations() == []


@pytest.mark.parametrize("asked", [asked for _, asked in CHANGES], ids=str)
def test_without_a_change_it_is_placed(pool, asked):
    """The control: nothing but the change keeps it off the node."""
    assert make.reservation(cast.caller("alice"), pool, **asked).state == "placed"


@pytest.mark.parametrize(
    ("lost", "state", "reason"),
    [(0, "placed", ""), (2, "placed", ""), (3, "pending", "LostToRivals")],
)
def test_a_lost_node_is_replaced_by_another_three_attempts_in_all(monkeypatch, lost, state, reason):
    """Each plan loses its node to a rival before it is committed, as long as there are rivals."""
    pool = make.pool(nodes=4, gpus=1)
    look, taken = placement.look, []

    def look_and_lose(*args: Any, **how: Any) -> object:
        found = look(*args, **how)
        if isinstance(found, Plan) and len(taken) < lost:
            (node_id,) = found.node_ids
            taken.append(node_id)
            sessions.race(lambda: eligibility.cordon(node_id))
        return found

    monkeypatch.setattr(placement, "look", look_and_lose)
    made = make.reservation(cast.caller("alice"), pool)

    assert made.state == state
    assert [condition["reason"] for condition in made.conditions] == ([reason] if reason else [])
    assert len(set(taken)) == lost, "no plan comes back to a node that was lost"
    assert invariants.violations() == []


@pytest.mark.rule("C9", "R16")
@pytest.mark.case(4, 5)
def test_an_attempt_that_booked_half_of_a_gang_leaves_nothing_behind(monkeypatch):
    """A rival books the last node of the first plan: what the gang had booked before goes back."""
    pool = make.pool(nodes=4, gpus=1)
    for node in Node.objects.all():
        eligibility.set_labels(node.pk, {"host": node.name})
    alice, bob = cast.caller("alice"), cast.caller("bob")
    look, rivals = placement.look, []

    def look_and_lose(*args: Any, **how: Any) -> object:
        found = look(*args, **how)
        if isinstance(found, Plan) and len(found.parts) == 2 and not rivals:
            rivals.append(name := found.parts[-1].node_name)
            one = {"class": "gpu", "count": 1, "selector": {"host": name}}
            assert sessions.race(lambda: make.reservation(bob, pool, devices=[one]).state) == [
                "placed"
            ]
        return found

    monkeypatch.setattr(placement, "look", look_and_lose)
    made = make.reservation(alice, pool, gang={"nodes": 2})

    assert made.state == "placed"
    assert len(rivals) == 1
    assert DeviceBooking.objects.count() == 3
    assert invariants.violations() == []
