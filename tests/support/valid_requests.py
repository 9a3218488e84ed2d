"""Every route of the API with a request it takes, and what every table holds.

The routes are those of the URL configuration; a new one has no body here, and the tests that go
through all routes fail until it has.
"""

from dataclasses import dataclass
from typing import Any

from django.db import connection

from bettercompute import clock
from tests.support import routes
from tests.support.cast import Api

POLICY_TEXT = "forbid(principal, action, resource) when { context.gpus > 8 };"


@dataclass(frozen=True, slots=True)
class World:
    """A caller, and ids that exist."""

    api: Api
    tenant: str
    pool: str
    node: str


def bodies(world: World) -> dict[tuple[str, str], dict[str, Any]]:
    """A valid body of each route that takes one."""
    tenant = {"tenantId": world.tenant}
    preview = {
        **tenant,
        "poolId": world.pool,
        "devices": [{"class": "gpu", "count": 1}],
        "duration": "1h",
    }
    reservation = {**preview, "idempotencyKey": "hostile"}
    policy = {**tenant, "name": "limits", "text": POLICY_TEXT}
    webhook = {**tenant, "url": "https://hooks.example.com/gpus", "eventTypes": ["reservation.*"]}
    soon = clock.now_ms() + 3_600_000
    maintenance = {**tenant, "start": soon, "end": soon + 3_600_000, "reason": "new fans"}
    return {
        ("POST", "/tokens"): {
            **tenant,
            "name": "ci",
            "delegation": {"agent": "trainer", "confirm": ["compute:reservations:create"]},
        },
        ("POST", "/tokens/<str:token_id>/revoke"): tenant,
        ("POST", "/feeds"): {**tenant, "poolId": world.pool},
        ("POST", "/feeds/<str:feed_id>/revoke"): tenant,
        ("POST", "/confirmations/<str:confirmation_id>/approve"): tenant,
        ("POST", "/confirmations/<str:confirmation_id>/deny"): {**tenant, "reason": "too many"},
        ("POST", "/confirmations/<str:confirmation_id>/withdraw"): {**tenant, "reason": "later"},
        ("POST", "/policies"): policy,
        ("PUT", "/policies/<str:policy_id>"): policy,
        ("POST", "/policies/dry-run"): {**tenant, "action": "compute:reservations:create"},
        ("POST", "/reservations"): reservation,
        ("POST", "/reservations/<str:reservation_id>/renew"): tenant,
        ("POST", "/reservations/<str:reservation_id>/extend"): {
            **tenant,
            "by": "1h",
            "idempotencyKey": "hostile",
        },
        ("POST", "/reservations/<str:reservation_id>/users"): {**tenant, "add": [], "remove": []},
        ("POST", "/reservations/<str:reservation_id>/release"): tenant,
        ("POST", "/reservations/<str:reservation_id>/cancel"): tenant,
        ("POST", "/series/<str:series_id>/cancel"): tenant,
        ("POST", "/series/<str:series_id>/skip"): {**tenant, "occurrence": 1_772_442_000_000},
        ("POST", "/capacity/preview"): preview,
        ("POST", "/capacity/offers"): {**preview, "duration": {"min": "1h", "max": "2h"}},
        ("POST", "/webhooks"): webhook,
        ("PATCH", "/webhooks/<str:webhook_id>"): {**tenant, "description": "to the chat"},
        ("POST", "/webhooks/<str:webhook_id>/rotate-secret"): tenant,
        ("POST", "/webhooks/<str:webhook_id>/test"): tenant,
        ("POST", "/webhooks/<str:webhook_id>/redeliver"): {**tenant, "from": 0, "to": soon},
        ("POST", "/webhooks/<str:webhook_id>/deliveries/<str:delivery_id>/redeliver"): tenant,
        ("POST", "/pools/<str:pool_id>/maintenance"): maintenance,
        ("POST", "/nodes/<str:node_id>/maintenance"): maintenance,
        ("POST", "/maintenance/<str:maintenance_id>/cancel"): tenant,
        ("POST", "/nodes/<str:node_id>/cordon"): tenant,
        ("POST", "/nodes/<str:node_id>/uncordon"): tenant,
    }


#: Operators name no tenant: these take null and nothing for one.
TENANT_OPTIONAL = ("/api/v1/nodes/", "/api/v1/pools/", "/api/v1/maintenance/")
PUBLIC = {"/api/v1/openapi.json", "/api/v1/docs"}
ROUTES = [route for route in routes.under("/api/v1/") if route.template not in PUBLIC]
WITH_BODY = {"POST", "PUT", "PATCH"}
WRITES = [(method, route) for route in ROUTES for method in route.methods if method in WITH_BODY]
READS = [
    (method, route) for route in ROUTES for method in route.methods if method in {"GET", "DELETE"}
]


def name(case: object) -> str:
    return f"{case[0]} {case[1]}" if isinstance(case, tuple) else str(case)


_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"
_DIGEST = """
SELECT '{0}', md5(coalesce(string_agg(t::text, chr(10) ORDER BY t::text), '')) FROM "{0}" t
"""


#: A refusal changes nothing but what is told of it.
TOLD_OF_REFUSALS = {"audit_entries"}


def snapshot() -> dict[str, str]:
    """What every table holds."""
    with connection.cursor() as cursor:
        cursor.execute(_TABLES)
        tables = [table for (table,) in cursor.fetchall() if table not in TOLD_OF_REFUSALS]
        cursor.execute(" UNION ALL ".join(map(_DIGEST.format, tables)))
        return dict(cursor.fetchall())


def required(route: routes.Route) -> str:
    """The parameters a route cannot do without."""
    spans_time = route.template.endswith(("/timeline", "/usage"))
    return "&from=1772442000000&to=1772445600000" if spans_time else ""
