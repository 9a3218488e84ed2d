"""What metrics say of webhooks."""

from collections.abc import Iterable

from bettercompute import sql
from bettercompute.telemetry.gauges import Gauge, Look
from outbox.webhooks.deliveries import DELIVERIES

GAUGES = sql.load(__package__, "gauges")


def endpoints() -> Iterable[Gauge]:
    """Endpoints by state, and by how well they answer."""
    found = Gauge(
        "webhook_endpoints", "Endpoints by state and by how quickly they answer.", ("state", "lane")
    )
    for state in ("enabled", "disabled"):
        found.add(0, state, "new")
    for state, lane, count in GAUGES.all("endpoints"):
        found.add(count, state, lane)
    return (found,)


def pending() -> Iterable[Gauge]:
    """What has yet to be delivered."""
    found = Gauge(
        "webhook_deliveries_pending",
        "Deliveries to be sent: due, later (tried again), held (endpoint paused or disabled).",
        ("wait",),
    )
    for wait in ("due", "later", "held"):
        found.add(0, wait)
    for wait, count in GAUGES.all("pending"):
        found.add(count, wait)
    row = DELIVERIES.one("overdue")
    assert row is not None
    oldest = Gauge(
        "webhook_oldest_due_seconds",
        "How long the most overdue delivery is due, slow and failing endpoints' left out.",
    )
    oldest.add(row[1].total_seconds())
    return found, oldest


ALL: tuple[Look, ...] = (endpoints, pending)
