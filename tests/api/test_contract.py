"""The routes of the contract (A4), as clients have been promised them."""

import pytest

from tests.support import routes

PROMISED = """
GET,POST   reservations
GET        reservations/<>
POST       reservations/<>/renew
POST       reservations/<>/extend
POST       reservations/<>/release
POST       reservations/<>/cancel
GET        reservations/<>/extension
POST       capacity/preview
POST       capacity/offers
GET        pools
GET        pools/<>
GET        pools/<>/timeline
GET        nodes
GET        nodes/<>
POST       nodes/<>/cordon
GET        events
GET        events/stream
GET,POST   webhooks
GET        webhooks/<>
POST       webhooks/<>/rotate-secret
POST       webhooks/<>/test
GET        webhooks/<>/deliveries
POST       webhooks/<>/deliveries/<>/redeliver
GET        quotas
GET        usage
GET        budgets
GET,POST   tokens
GET,POST   policies
POST       policies/dry-run
GET        confirmations
GET        confirmations/<>
POST       confirmations/<>/approve
POST       confirmations/<>/deny
GET        whoami
"""


@pytest.mark.rule("A4")
def test_every_route_of_the_contract_is_there() -> None:
    offered = {
        (method, _nameless(route.template.removeprefix("/api/v1/")))
        for route in routes.under("/api/v1/")
        for method in route.methods
    }
    promised = {
        (method, path)
        for methods, path in map(str.split, PROMISED.split("\n")[1:-1])
        for method in methods.split(",")
    }
    assert promised - offered == set()


def _nameless(template: str) -> str:
    """``reservations/<>`` of ``reservations/<str:reservation_id>``."""
    return "/".join("<>" if part.startswith("<") else part for part in template.split("/"))
