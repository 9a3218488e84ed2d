"""A reservation whose owner is gone: nothing is deleted, and everybody sees it."""

import json

import pytest
from django.db import IntegrityError, connection
from django.db.models import ProtectedError

from bettercompute.coordination import resync
from bettercompute.coordination.runner import Runner
from bettercompute.iam import accounts, memberships
from bettercompute.iam.models import Account
from nodes.models import DeviceBooking, ReportedState
from outbox.models import Event
from pools.models import QuotaUsage
from reservations import queries, reconciler
from reservations.models import Reservation
from tests.support import cast, invariants, make

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.case(23)]


def leave() -> None:
    """Bob is no member of acme any more."""
    assert memberships.remove(cast.account("bob"), cast.tenant())


def disable() -> None:
    """Bob's account is disabled by an operator."""
    values = {"is_active": False, "is_staff": False}
    accounts.change(cast.caller("olga"), cast.account("bob"), values)


def come_back() -> None:
    """Whatever became of him is undone."""
    values = {"is_active": True, "is_staff": False}
    accounts.change(cast.caller("olga"), cast.account("bob"), values)
    memberships.add(cast.account("bob"), cast.tenant())


def unresolved(reservation: Reservation) -> str | None:
    """The reason of its OwnerUnresolved."""
    found = [c for c in reservation.conditions if c["type"] == "OwnerUnresolved"]
    return found[0]["reason"] if found else None


@pytest.mark.rule("R24", "R23")
@pytest.mark.parametrize(
    ("go", "reason"), [(leave, "NoMember"), (disable, "AccountDisabled")], ids=["left", "disabled"]
)
def test_an_active_one_keeps_everything_and_says_that_its_owner_is_unresolved(
    clock, go, reason
) -> None:
    reservation = make.active(cast.caller("bob"), make.pool(), gpus=2, duration="8h")
    held = list(DeviceBooking.objects.values())
    events = Event.objects.count()

    go()
    gone = make.look(reservation)

    assert (gone.state, unresolved(gone)) == ("active", reason)
    assert gone.version == reservation.version + 1
    assert list(DeviceBooking.objects.values()) == held
    assert QuotaUsage.objects.get(resource="gpuMilli").used == 2_000
    assert Event.objects.count() == events
    assert invariants.violations() == []

    assert make.look(gone).version == gone.version, "a second look has nothing to add"
    come_back()
    assert unresolved(make.look(gone)) is None


@pytest.mark.rule("R24", "C27")
def test_one_that_is_ahead_begins_and_ends_all_the_same(clock) -> None:
    ahead = make.reservation(
        cast.caller("bob"), make.pool(), start=clock.now_ms() + 3_600_000, duration="1h"
    )
    leave()
    assert unresolved(make.look(ahead)) == "NoMember"

    clock.advance("1h")
    make.look(ahead)
    make.report(ahead, ReportedState.BOUND)
    begun = make.look(ahead)
    assert (begun.state, unresolved(begun)) == ("active", "NoMember")
    clock.advance("1h")
    ended = make.look(ahead)
    assert (ended.state, ended.reason, ended.conditions) == ("released", "expired", [])


def test_one_that_waits_is_placed_all_the_same() -> None:
    pool = make.pool(nodes=1, gpus=1)
    first = make.reservation(cast.caller("alice"), pool)
    waiting = make.reservation(cast.caller("bob"), pool)
    leave()
    waiting = make.look(waiting)
    assert (waiting.state, unresolved(waiting)) == ("pending", "NoMember")
    assert [c["type"] for c in waiting.conditions] == ["Unschedulable", "OwnerUnresolved"]

    cast.api("alice").post(f"/reservations/{first.pk}/release", {"tenantId": first.tenant_id})
    make.look_at_pool(pool)
    waiting.refresh_from_db()
    assert (waiting.state, unresolved(waiting)) == ("placed", "NoMember")


@pytest.mark.rule("C27")
def test_the_resync_finds_out_without_anybody_waking_it(clock) -> None:
    reservation = make.active(cast.caller("bob"), make.pool(), duration="8h")
    runner = Runner({"reservation": reconciler.reconcile})
    runner.drain()
    leave()

    resync.run({"reservation": queries.live_keys})
    runner.drain()

    reservation.refresh_from_db()
    assert unresolved(reservation) == "NoMember"


@pytest.mark.rule("R38", "U8")
def test_the_tenants_admin_sees_it_everywhere_and_can_release_it() -> None:
    reservation = make.active(cast.caller("bob"), make.pool(), duration="8h")
    leave()
    make.look(reservation)
    alice, console = cast.api("alice"), cast.session("alice", check_csrf=False)
    path = f"/reservations/{reservation.pk}"
    tenant = f"tenantId={reservation.tenant_id}"

    shown = json.loads(alice.get(f"{path}?{tenant}").content)
    assert [c["type"] for c in shown["conditions"]] == ["OwnerUnresolved"]
    assert shown["ownerIdentityId"] == reservation.owner_id
    listed = json.loads(alice.get(f"/reservations?{tenant}&scope=all").content)
    assert [item["id"] for item in listed["items"]] == [reservation.pk]
    page = console.get(path).content.decode()
    assert "Its owner is gone" in page
    assert "bob" in page

    assert alice.post(f"{path}/release", {"tenantId": reservation.tenant_id}).status_code == 200
    reservation.refresh_from_db()
    assert reservation.state == "released"


def test_who_left_reaches_it_no_more() -> None:
    reservation = make.active(cast.caller("bob"), make.pool(), duration="8h")
    api, console = cast.api("bob"), cast.session("bob", check_csrf=False)
    leave()

    for path in ("", "/release", "/cancel"):
        where = f"/reservations/{reservation.pk}{path}"
        body = {"tenantId": reservation.tenant_id}
        query = f"{where}?tenantId={reservation.tenant_id}"
        answer = api.post(where, body) if path else api.get(query)
        assert answer.status_code in {401, 404}
        assert console.get(where).status_code in {302, 403, 404}
    assert Reservation.objects.get() == reservation


def test_an_operator_needs_no_membership() -> None:
    reservation = make.active(cast.caller("olga", "acme"), make.pool())
    assert unresolved(make.look(reservation)) is None


@pytest.mark.rule("C1")
def test_neither_the_account_nor_the_tenant_of_a_reservation_can_be_deleted() -> None:
    reservation = make.active(cast.caller("bob"), make.pool())
    with pytest.raises(ProtectedError):
        cast.account("bob").delete()
    with pytest.raises(ProtectedError):
        cast.tenant().delete()
    memberships.remove(cast.account("bob"), cast.tenant())
    with connection.cursor() as cursor, pytest.raises(IntegrityError, match="still referenced"):
        cursor.execute("DELETE FROM accounts WHERE id = %s", [reservation.owner_id])
    assert Account.objects.filter(pk=reservation.owner_id).exists()
    assert Reservation.objects.get().state == "active"
