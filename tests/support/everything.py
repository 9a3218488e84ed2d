"""A world with one of everything, and each route that writes with a request that it takes."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.http import HttpResponse

from bettercompute import clock
from nodes import maintenance
from nodes.models import Node
from outbox.webhooks import resending
from reservations.feeds import keeping
from tests.support import cast, delegates, make, routes, valid_requests
from tests.support.cast import Api
from tests.support.valid_requests import World

API = "/api/v1"
FORBID = 'forbid (principal, action == Action::"compute:reservations:create", resource);'

#: Deleting comes last, and leaving one occurrence out before all of them.
WRITES = sorted(
    (
        (method, route.template.removeprefix(API))
        for route in routes.under(f"{API}/")
        for method in route.methods
        if method != "GET"
    ),
    key=lambda write: (write[0] == "DELETE", write[1] == "/series/<str:series_id>/cancel"),
)


class Everything:
    """A world with one of everything, and where each route finds it."""

    def __init__(self) -> None:
        self.pool = make.pool(nodes=2)
        self.alice = cast.caller("alice")
        self.node = Node.objects.filter(pool=self.pool).earliest("pk")
        self.api = cast.api("alice")
        self.world = World(self.api, cast.tenant().pk, self.pool.pk, self.node.pk)
        self.bodies = valid_requests.bodies(self.world)

    def send(self, method: str, template: str, *, by: Api | None = None) -> HttpResponse:
        """The route, with an id that exists and a body that it takes; by alice, or another."""
        by = by or self.api
        body: dict[str, Any] = {**self.bodies.get((method, template), {})}
        body |= self.changed().get((method, template), {})
        path = template
        for parameter, make_one in self.makers().items():
            if parameter in path:
                path = path.replace(parameter, make_one(template))
        if method == "DELETE":
            return by.send(method, f"{path}?tenantId={self.world.tenant}")
        return by.send(method, path, body)

    def makers(self) -> dict[str, Callable[[str], str]]:
        """By the name of a parameter: something new that is so called."""
        return {
            "<str:token_id>": lambda _: cast.token("alice")[0].pk,
            "<str:feed_id>": lambda _: keeping.create(self.alice)[0].pk,
            "<str:confirmation_id>": self.confirmation,
            "<str:policy_id>": lambda _: self.policy(),
            "<str:reservation_id>": self.reservation,
            "<str:series_id>": lambda _: self.series,
            "<str:pool_id>": lambda _: self.pool.pk,
            "<str:node_id>": lambda _: self.node.pk,
            "<str:maintenance_id>": lambda _: self.maintenance(),
            "<str:webhook_id>": lambda _: self.webhook,
            "<str:delivery_id>": lambda _: self.delivery(),
        }

    @property
    def series(self) -> str:
        """The one series; three of its occurrences are ahead."""
        if not hasattr(self, "_series"):
            self._series = make.series(self.alice, self.pool)
        return self._series

    @property
    def webhook(self) -> str:
        """The one webhook, whose receiver nobody asks."""
        if not hasattr(self, "_webhook"):
            answer = self.send("POST", "/webhooks")
            self._webhook = json.loads(answer.content)["id"]
        return str(self._webhook)

    def delivery(self) -> str:
        """One that was sent, to nobody."""
        return resending.test(self.alice, self.webhook).id

    def reservation(self, template: str) -> str:
        """One that can be parted with, or one that is used."""
        if template.endswith("/cancel"):
            start = clock.now_ms() + 86_400_000
            return make.reservation(self.alice, self.pool, start=start).pk
        return make.active(self.alice, self.pool, leaseSeconds=600).pk

    def confirmation(self, template: str) -> str:
        """One that can be answered, or one whose answer can be withdrawn."""
        made = delegates.approved if template.endswith("/withdraw") else delegates.question
        return made().pk

    def policy(self) -> str:
        """Another one each time."""
        made = self.api.post(
            "/policies",
            {
                "tenantId": self.world.tenant,
                "name": make.key(),
                "text": FORBID,
                "enabled": False,
            },
        )
        return str(json.loads(made.content)["id"])

    def maintenance(self) -> str:
        """Another one each time."""
        start = clock.now() + timedelta(days=1_000)
        at = maintenance.place(node_id=self.node.pk)
        assert at is not None
        window, _ = maintenance.announce(
            at,
            start=start,
            end=start + timedelta(hours=1),
            reason="fans",
            account_id=self.alice.account_id,
        )
        return window.id

    def changed(self) -> dict[tuple[str, str], dict[str, Any]]:
        """What a valid body must have besides, to change anything."""
        with_bob = {"add": [cast.account("bob").pk]}
        disabled = {"name": make.key(), "enabled": False}
        return {
            ("POST", "/reservations/<str:reservation_id>/users"): with_bob,
            ("POST", "/series/<str:series_id>/skip"): {"occurrence": clock.now_ms() + 86_400_000},
            ("POST", "/policies"): disabled,
            ("PUT", "/policies/<str:policy_id>"): disabled,
        }
