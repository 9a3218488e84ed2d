"""What is kept of a pool's hardware is never what the hardware was (R30, R38)."""

from collections.abc import Callable
from fractions import Fraction

import pytest
from django.db import connection, models, transaction

from bettercompute.agent import hosts
from bettercompute.agent.inventory import HostInventory
from nodes import inventory, resources
from nodes.models import Node, PoolHardware
from pools import catalogue, hardware
from pools.catalogue import PoolAccess
from pools.models import Pool
from tests.support import cast, make, sessions, supply

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("R30")]

Change = Callable[[Node], object]


def _reported(node: Node, **changes: int) -> None:
    inventory.apply(node.pk, supply.host(node.name, **{"gpus": 2, **changes}))


def _remodelled(node: Node) -> None:
    one = HostInventory(gpus=(supply.H100.model_copy(update={"model_class": "H200"}),))
    inventory.apply(
        node.pk, hosts.multiply(one, gpus=2, node_key=node.name, vcpu=66, memory_gib=512)
    )


def _moved(node: Node) -> None:
    Node.objects.filter(pk=node.pk).update(pool=supply.pool())


def _retired(node: Node) -> None:
    Node.objects.filter(pk=node.pk).update(state="retired", version=models.F("version") + 1)


def _deleted(node: Node) -> None:
    with connection.cursor() as cursor:
        for table in ("node_resources", "devices"):
            cursor.execute(f"DELETE FROM {table} WHERE node_id = %s", [node.pk])
        cursor.execute("DELETE FROM nodes WHERE id = %s", [node.pk])


CHANGES: dict[str, Change] = {
    "a node joins": lambda node: supply.node(node.pool, gpus=8, vcpu=18),
    "a card more": lambda node: _reported(node, gpus=3),
    "another model": _remodelled,
    "a card not bookable": lambda node: node.devices.update(bookable_mode=None),
    "fewer CPUs": lambda node: _reported(node, vcpu=34),
    "another ratio": lambda node: node.resources.filter(resource="vcpu").update(ratio=2),
    "a node retires": _retired,
    "a node moves": _moved,
    "a node is deleted": _deleted,
}


def access_of(pool: Pool) -> PoolAccess:
    return catalogue.access_pool(cast.caller("alice"), pool.pk)


def known(access: PoolAccess) -> tuple[tuple[str, ...], dict[str, Fraction]]:
    return hardware.models(access), dict(hardware.smallest_shares(access))


def read_afresh(access: PoolAccess) -> tuple[tuple[str, ...], dict[str, Fraction]]:
    with transaction.atomic():  # in which nothing is kept, and nothing kept is used
        return known(access)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_change_on_another_connection_is_known_to_the_next_request(change: Change) -> None:
    pool = supply.pool()
    node = supply.node(pool, gpus=2, vcpu=66)
    before = known(access_of(pool))
    with sessions.opened("operator") as (operator,):
        operator.run(lambda: change(node))
    after = access_of(pool)
    assert known(after) == read_afresh(after)
    assert known(after) != before


def test_while_nothing_changes_nothing_is_read_again(django_assert_num_queries) -> None:
    pool = make.pool()
    access = access_of(pool)
    found = known(access)
    make.reservation(cast.caller("alice"), pool, gpus=2)
    again = access_of(pool)
    assert again.hardware == access.hardware, "a booking changes no hardware"
    with django_assert_num_queries(0):
        assert known(again) == found


def test_what_a_transaction_has_not_committed_is_not_kept() -> None:
    pool = supply.pool()
    node = supply.node(pool, gpus=2)
    with transaction.atomic():
        node.devices.update(bookable_mode=None)
        assert hardware.models(access_of(pool)) == ()
        transaction.set_rollback(True)
    assert hardware.models(access_of(pool)) == ("H100",)


def test_a_number_is_written_once_a_transaction_and_not_held_while_it_runs() -> None:
    pool = supply.pool()
    first, second = supply.node(pool, gpus=2), supply.node(pool, gpus=2)
    with sessions.opened("one", "other") as (one, other):
        one.begin()
        one.run(lambda: resources.set_allocatable(first.pk, {"vcpu": 8}))
        other.begin()
        other.run(lambda: resources.set_allocatable(second.pk, {"vcpu": 9}))
        other.commit()  # does not wait for the first
        between = access_of(pool)
        assert hardware.smallest_shares(between)["vcpu"] == Fraction(9, 2)
        one.commit()
    after = access_of(pool)
    assert after.hardware != between.hardware
    assert hardware.smallest_shares(after)["vcpu"] == Fraction(8, 2)


def test_negative_control_without_the_triggers_what_is_kept_grows_stale() -> None:
    pool = supply.pool()
    node = supply.node(pool, gpus=2)
    assert hardware.models(access_of(pool)) == ("H100",)
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE devices DISABLE TRIGGER devices_change_hardware")
        try:
            node.devices.update(bookable_mode=None)
        finally:
            cursor.execute("ALTER TABLE devices ENABLE TRIGGER devices_change_hardware")
    assert hardware.models(access_of(pool)) == ("H100",), "so it is the trigger that ends it"
    assert PoolHardware.objects.filter(pool_id=pool.pk).exists()
