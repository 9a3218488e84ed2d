"""Whoever commits second sees the first: placers against cordons and their like (C13)."""

import threading
import time
from collections.abc import Callable

import pytest
from django.db import OperationalError, connection

from nodes import devices, eligibility
from nodes.models import Mode, Node
from tests.support import sessions, supply

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("C13")]

Change = Callable[[Node], object]

CHANGES: dict[str, Change] = {
    "cordon": lambda node: eligibility.cordon(node.pk),
    "silence": lambda node: eligibility.mark_unreachable(node.pk),
    "quarantine": lambda node: eligibility.quarantine(supply.devices(node)[0], reason="test"),
    "mode": lambda node: devices.set_mode(supply.devices(node)[0], mode=Mode.SLOTS, slots=2),
}


def _lock(node: Node) -> eligibility.Locked:
    gpus = list(node.devices.filter(kind="gpu").values_list("pk", flat=True))
    return eligibility.lock(node_ids=[node.pk], device_ids=gpus)


def _may_place(locked: eligibility.Locked) -> bool:
    nodes, atoms = locked.nodes.values(), locked.devices.values()
    return all(each.eligible for each in nodes) and all(each.eligible for each in atoms)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_placer_that_comes_second_waits_and_sees_the_change(change: Change) -> None:
    node = supply.node(gpus=1)
    with sessions.opened("operator", "placer") as (operator, placer):
        operator.begin()
        operator.run(lambda: change(node))
        placer.begin()
        look = placer.start(lambda: _lock(node))
        look.must_block()
        operator.commit()
        assert not _may_place(look.result())


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_change_that_comes_second_waits_for_the_placer(change: Change) -> None:
    node = supply.node(gpus=1)
    with sessions.opened("placer", "operator") as (placer, operator):
        placer.begin()
        assert _may_place(placer.run(lambda: _lock(node)))
        attempt = operator.start(lambda: change(node))
        attempt.must_block()
        placer.commit()
        assert attempt.result()


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_change_that_rolls_back_never_was(change: Change) -> None:
    node = supply.node(gpus=1)
    with sessions.opened("operator", "placer") as (operator, placer):
        operator.begin()
        operator.run(lambda: change(node))
        look = placer.start(lambda: _lock(node))
        look.must_block()
        operator.rollback()
        assert _may_place(look.result())


def test_a_taint_or_label_set_meanwhile_is_re_read_under_the_lock() -> None:
    node = supply.node(gpus=1)
    with sessions.opened("operator", "placer") as (operator, placer):
        operator.begin()
        operator.run(lambda: eligibility.taint(node.pk, [{"key": "maintenance"}]))
        operator.run(lambda: eligibility.set_system_labels(node.pk, {"bc.dev/cap.x": "true"}))
        placer.begin()
        look = placer.start(lambda: _lock(node))
        look.must_block()
        operator.commit()
        found = look.result().nodes[node.pk]
        assert [each["key"] for each in found.taints] == ["maintenance"]
        assert found.system_labels == {"bc.dev/cap.x": "true"}


def test_placers_do_not_wait_for_each_other() -> None:
    node = supply.node(gpus=1)
    with sessions.opened("placer", "other") as (placer, other):
        placer.begin()
        other.begin()
        assert _may_place(placer.run(lambda: _lock(node)))
        assert _may_place(other.run(lambda: _lock(node)))


def test_a_placer_that_only_reads_misses_the_cordon() -> None:
    """The negative control: without FOR SHARE it neither waits nor sees."""
    node = supply.node(gpus=1)
    plain = eligibility.ELIGIBILITY.texts["lock_nodes"].replace("FOR SHARE", "")

    def read() -> bool:
        with connection.cursor() as cursor:
            cursor.execute(plain, {"node_ids": [node.pk]})
            (row,) = cursor.fetchall()
            return bool(row[3])

    with sessions.opened("operator", "placer") as (operator, placer):
        operator.begin()
        operator.run(lambda: eligibility.cordon(node.pk))
        placer.begin()
        assert placer.run(read) is False
        operator.commit()
    node.refresh_from_db()
    assert node.cordoned, "and the placer would have placed"


@pytest.mark.any_lock_order
def test_for_share_and_then_update_deadlocks() -> None:
    """Why no transaction updates a row that it first took FOR SHARE."""
    node = supply.node(gpus=1)
    with sessions.opened("one", "other") as (one, other):
        one.begin()
        other.begin()
        one.run(lambda: _lock(node))
        other.run(lambda: _lock(node))
        first = one.start(lambda: eligibility.cordon(node.pk))
        first.must_block()
        second = other.start(lambda: eligibility.cordon(node.pk))
        victim, survivor = _settle((one, first), (other, second))
        with pytest.raises(OperationalError, match="deadlock detected"):
            victim.result()
        assert survivor.result() == 2


def _settle(*pairs: tuple[sessions.Session, sessions.Step]) -> list[sessions.Step]:
    """Let the server choose a victim, and end its transaction; the victim's step comes first."""
    deadline = time.monotonic() + sessions.WAIT_SECONDS_MAX
    while not (ended := [pair for pair in pairs if pair[1].done()]):
        assert time.monotonic() < deadline, "no deadlock was detected"
        threading.Event().wait(sessions.POLL_SECONDS)
    victim, step = ended[0]
    victim.rollback()
    return [step, *(other for _, other in pairs if other is not step)]


@pytest.mark.rule("C2")
def test_two_operators_at_once_are_no_conflict_without_if_match() -> None:
    node = supply.node(gpus=1)
    with sessions.opened("one", "other") as (one, other):
        one.begin()
        one.run(lambda: eligibility.cordon(node.pk))
        attempt = other.start(lambda: eligibility.set_labels(node.pk, {"rack": "7"}))
        attempt.must_block()
        one.commit()
        assert attempt.result() == 3
    node.refresh_from_db()
    assert (node.cordoned, node.labels) == (True, {"rack": "7"})
