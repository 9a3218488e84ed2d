"""What a policy knows of what somebody holds: counted when asked, and still so when booked."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from bettercompute import errors
from bettercompute.iam import policies, projection
from bettercompute.wire.reservations import ExtendRequest
from pools import quota
from reservations import admission, ending, previews, renewal
from reservations.extending import extension
from tests.support import cast, make

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("R38")]

AT_ONCE = """
forbid (principal, action in Action::"compute:reservations:*", resource)
when { context.gpus > 0 && context.gpus + context.heldGpus > 3 };
"""
ONE = """
forbid (principal, action == Action::"compute:reservations:create", resource)
when { context.heldReservations >= 1 };
"""


def forbid(text: str, *, name: str = "limits") -> None:
    draft = policies.Draft(name, text)
    policies.create(cast.caller("alice"), draft=draft)


def test_what_one_holds_counts_and_what_others_hold_does_not():
    forbid(AT_ONCE)
    pool, alice, bob = make.pool(), cast.caller("alice"), cast.caller("bob")
    first = make.reservation(alice, pool, gpus=2)
    with pytest.raises(errors.AccessDenied):
        make.reservation(alice, pool, gpus=2)
    make.reservation(bob, pool, gpus=3)
    # Ahead or waiting counts as well; what was given back does not.
    make.reservation(alice, pool, gpus=1, start=1_780_000_000_000)
    with pytest.raises(errors.AccessDenied):
        make.reservation(alice, pool)
    ending.release(alice, reservation_id=first.pk)
    make.reservation(alice, pool, gpus=2)


def test_a_preview_is_judged_by_it_too():
    forbid(ONE)
    pool, alice = make.pool(), cast.caller("alice")
    assert previews.preview(alice, make.request(alice, pool)).fits
    make.reservation(alice, pool)
    (reason,) = previews.preview(alice, make.request(alice, pool)).reasons
    assert reason.filter == "policy"


def test_one_that_exists_is_not_beside_itself_and_its_owner_is_who_counts():
    forbid(AT_ONCE)
    pool, alice, bob = make.pool(), cast.caller("alice"), cast.caller("bob")
    reservation = make.active(bob, pool, gpus=3, leaseSeconds=600)
    make.reservation(alice, pool, gpus=3)
    wanted = ExtendRequest(tenant_id=alice.tenant_id, by="1h")
    made = extension.extend(
        alice, wanted, reservation_id=reservation.pk, idempotency_key=make.key()
    )
    assert made.extended
    renewal.renew(bob, reservation_id=reservation.pk)
    # It is nothing that the reservation itself has: the feed never told of it.
    assert not {"held_gpus", "held_reservations"} & set(projection.attributes_of(reservation.pk))


def test_it_is_counted_only_where_a_policy_weighs_it():
    pool = make.pool(nodes=2)

    def statements() -> int:
        with CaptureQueriesContext(connection) as sent:
            make.reservation(cast.caller("alice"), pool)
        return sum("count(*), coalesce(sum(amount)" in each["sql"] for each in sent)

    forbid("forbid (principal, action, resource) when { context.gpus > 64 };")
    assert statements() == 0
    forbid(AT_ONCE.replace("> 3", "> 64"), name="weighs")
    assert statements() == 2, "once to decide, once when it is booked"


def test_what_was_charged_since_it_was_decided_is_decided_again(monkeypatch):
    forbid(AT_ONCE)
    pool, alice = make.pool(), cast.caller("alice")
    real, seen = admission.look, []

    def somebody_is_faster(*args):
        if not seen:
            seen.append(True)
            monkeypatch.setattr(admission, "look", real)
            make.reservation(alice, pool, gpus=2)
        return real(*args)

    monkeypatch.setattr(admission, "look", somebody_is_faster)
    with pytest.raises(errors.AccessDenied):
        make.reservation(alice, pool, gpus=2)
    assert quota.held(alice.tenant_id, alice.account_id).gpu_milli == 2_000


def test_a_key_whose_decision_never_holds_stays_for_a_later_try(monkeypatch):
    forbid(AT_ONCE)
    pool, alice = make.pool(), cast.caller("alice")
    with monkeypatch.context() as patch:
        patch.setattr(admission, "_held_beside", lambda reservation: quota.Held(9, 9_000))
        with pytest.raises(errors.Unavailable):
            make.reservation(alice, pool, idempotency_key="k")
    assert make.reservation(alice, pool, idempotency_key="k").state == "placed"
