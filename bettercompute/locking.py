"""The one lock order (C19). docs/locking.md explains it on a page.

A transaction that locks rows of several of these tables takes them in this order, and several rows
of one table sorted by their id. ``tests/support/lock_order.py`` records the order that every test's
transactions take and fails on a violation.
"""

LOCK_ORDER = (
    "leases",
    "reservation_series",
    "reservations",
    "quota_usage",
    "budgets",
    "pools",
    "nodes",
    "maintenance_windows",
    "devices",
    "device_bookings",
    "node_resources",
    "resource_bookings",
    "node_desired",
    "pool_capacity_rollup",
    "confirmations",
    "webhook_endpoints",
    "webhook_deliveries",
    "work_queue",
    "outbox",
    "pool_hardware",
)
