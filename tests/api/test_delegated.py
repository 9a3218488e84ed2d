"""What an agent that holds everything can do by itself, of every route there is and will be.

Each route that writes is sent by an agent of an admin a request that the admin could send. A new
route is asked about, is for people, or is named among those that an agent may use by itself.
"""

import pytest

from reservations.models import Confirmation, Reservation
from tests.support import delegates
from tests.support.everything import WRITES, Everything

pytestmark = [pytest.mark.django_db, pytest.mark.rule("R36")]

HELD = {
    ("POST", "/reservations"),
    ("POST", "/reservations/<str:reservation_id>/cancel"),
    ("POST", "/reservations/<str:reservation_id>/extend"),
    ("POST", "/reservations/<str:reservation_id>/release"),
    ("POST", "/reservations/<str:reservation_id>/renew"),
    ("POST", "/reservations/<str:reservation_id>/users"),
    ("POST", "/series/<str:series_id>/cancel"),
    ("POST", "/series/<str:series_id>/skip"),
}
FOR_PEOPLE = {
    ("POST", "/confirmations/<str:confirmation_id>/approve"),
    ("POST", "/confirmations/<str:confirmation_id>/deny"),
    ("POST", "/confirmations/<str:confirmation_id>/withdraw"),
    ("POST", "/feeds"),
    ("POST", "/policies"),
    ("PUT", "/policies/<str:policy_id>"),
    ("DELETE", "/policies/<str:policy_id>"),
    ("POST", "/tokens"),
    ("POST", "/tokens/<str:token_id>/revoke"),
}
#: They spend no GPU-hours and end no work; a tenant's policies can forbid them to agents.
BY_ITSELF = {
    ("DELETE", "/webhooks/<str:webhook_id>"),
    ("PATCH", "/webhooks/<str:webhook_id>"),
    ("POST", "/capacity/offers"),
    ("POST", "/capacity/preview"),
    ("POST", "/feeds/<str:feed_id>/revoke"),
    ("POST", "/maintenance/<str:maintenance_id>/cancel"),
    ("POST", "/nodes/<str:node_id>/cordon"),
    ("POST", "/nodes/<str:node_id>/maintenance"),
    ("POST", "/nodes/<str:node_id>/uncordon"),
    ("POST", "/policies/dry-run"),
    ("POST", "/pools/<str:pool_id>/maintenance"),
    ("POST", "/webhooks"),
    ("POST", "/webhooks/<str:webhook_id>/deliveries/<str:delivery_id>/redeliver"),
    ("POST", "/webhooks/<str:webhook_id>/redeliver"),
    ("POST", "/webhooks/<str:webhook_id>/rotate-secret"),
    ("POST", "/webhooks/<str:webhook_id>/test"),
}


def test_an_agent_does_nothing_that_is_held_or_a_persons_by_any_route() -> None:
    everything = Everything()
    agent = delegates.agent("alice", *delegates.HOLDABLE).api
    asked, refused, done = set(), set(), set()
    for write in WRITES:
        before = Confirmation.objects.count()
        answer = everything.send(*write, by=agent)
        if answer.status_code < 300:
            done.add(write)
        elif answer.json()["code"] == "CONFIRMATION_REQUIRED":
            assert Confirmation.objects.count() == before + 1
            asked.add(write)
        else:
            assert answer.json()["code"] in {"ACCESS_DENIED", "NOT_FOUND"}, (write, answer.content)
            refused.add(write)
    assert asked == HELD
    assert refused == FOR_PEOPLE
    assert done == BY_ITSELF
    assert not Reservation.objects.exclude(agent="").exclude(state="awaiting-confirmation").exists()
