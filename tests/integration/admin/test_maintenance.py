"""Operators announce maintenance: whom it meets is shown first, and it is audited (N18, U8)."""

import pytest
from django.test import Client

from nodes.models import MaintenanceWindow
from tests.integration.admin.conftest import World
from tests.integration.admin.test_operations import WHY, ask, assert_audited, do
from tests.support import cast, make

pytestmark = [pytest.mark.django_db, pytest.mark.rule("N18", "U8")]


def newest() -> MaintenanceWindow:
    return MaintenanceWindow.objects.latest("id")


@pytest.mark.parametrize("register", ["nodes_node", "pools_pool"])
def test_it_is_announced_of_a_node_or_a_pool_and_called_off(
    world: World, olga: Client, register: str
) -> None:
    row = world.node if register == "nodes_node" else world.node.pool
    assert world.active.pk in ask(olga, register, "maintain", row.pk)
    page = do(olga, register, "maintain", row.pk, start="2027-03-03 09:00", duration="later")
    assert "not a duration" in page.content.decode()
    for when in ({"duration": "999999999999999w"}, {"start": "9999-12-31 23:59"}):
        wrong = {"start": "2027-03-03 09:00", "duration": "4h", **when}
        page = do(olga, register, "maintain", row.pk, **wrong)
        assert "Must be at most" in page.content.decode()
    assert MaintenanceWindow.objects.count() == 1, "the one of the world"
    do(olga, register, "maintain", row.pk, start="2027-03-03 09:00", duration="4h")
    window = newest()
    assert (window.pool_id, window.node_id) == (
        world.node.pool_id,
        world.node.pk if register == "nodes_node" else None,
    )
    assert (window.reason, window.announced_by.username) == (WHY, "olga")
    assert_audited(row, "Announce maintenance", "reservations it meets: 0")

    ask(olga, "nodes_maintenancewindow", "cancel", window.pk)
    do(olga, "nodes_maintenancewindow", "cancel", window.pk)
    window.refresh_from_db()
    assert window.cancelled_at is not None
    assert_audited(window, "Call off", "it is called off")


def test_its_page_names_whom_it_meets(world: World, olga: Client) -> None:
    held = make.active(cast.caller("alice"), world.node.pool, duration="400d")
    do(olga, "nodes_node", "maintain", world.node.pk, start="2027-03-03 09:00", duration="4h")
    window = newest()
    page = olga.get(f"/admin/nodes/maintenancewindow/{window.pk}/change/").content.decode()
    assert held.pk in page
    assert world.active.pk not in page, "it has ended by then"
