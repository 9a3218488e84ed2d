"""A policy on what one holds at once holds for rivals: each is decided on what others left."""

import pytest

from bettercompute import errors, failpoints
from bettercompute.failpoints import Failpoint
from bettercompute.iam import policies
from pools import quota
from reservations import admission
from reservations.models import Reservation
from tests.support import cast, make, races, sessions

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("R38")]

RIVALS = 5
AT_MOST_TWO = """
forbid (principal, action == Action::"compute:reservations:create", resource)
when { context.gpus + context.heldGpus > 2 };
"""


def _race() -> list[str]:
    """Five creates of one person, all decided before any of them is booked."""
    pool, alice = make.pool(nodes=2), cast.caller("alice")
    policies.create(alice, draft=policies.Draft("two", AT_MOST_TWO))

    def create() -> str:
        try:
            return make.reservation(alice, pool).state
        except errors.AccessDenied:
            return "denied"

    with races.meeting_at(Failpoint.PLACEMENT_PLANNED, parties=RIVALS):
        outcomes = sessions.race(*[create] * RIVALS)
    failpoints.disarm()
    return outcomes


def test_of_five_at_once_as_many_are_booked_as_the_policy_allows():
    assert sorted(_race()) == ["denied"] * 3 + ["placed"] * 2
    alice = cast.caller("alice")
    assert quota.held(alice.tenant_id, alice.account_id) == quota.Held(2, 2_000)


def test_negative_control_decided_once_all_five_are_booked(monkeypatch):
    monkeypatch.setattr(admission, "_held_beside", lambda reservation: quota.Held(0, 0))
    assert _race() == ["placed"] * RIVALS
    assert Reservation.objects.filter(state="placed").count() == RIVALS
