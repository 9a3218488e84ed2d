"""What the lock-order guard reads out of a statement."""

import pytest

from bettercompute import locking
from tests.support import lock_order

pytestmark = pytest.mark.rule("C19")


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT * FROM nodes", []),
        ("SELECT * FROM nodes WHERE id = 'x' FOR UPDATE", [("nodes", "write")]),
        ('SELECT "nodes"."id" FROM "nodes" ORDER BY 1 FOR NO KEY UPDATE', [("nodes", "write")]),
        ("SELECT 1 FROM leases WHERE name = %s FOR SHARE", [("leases", "share")]),
        ("SELECT id FROM nodes n ORDER BY id FOR KEY SHARE", [("nodes", "share")]),
        ("INSERT INTO outbox (a) VALUES (1)", [("outbox", "write")]),
        ("UPDATE quota_usage SET used = used + 1", [("quota_usage", "write")]),
        ("UPDATE ONLY public.pools AS p SET x = 1", [("pools", "write")]),
        ("DELETE FROM device_bookings WHERE id = 1", [("device_bookings", "write")]),
        (
            "INSERT INTO work_queue (a) VALUES (1) ON CONFLICT (a) DO UPDATE SET b = 2",
            [("work_queue", "write")],
        ),
        ("SELECT 'UPDATE nodes' FROM devices -- FOR UPDATE", []),
        ("SELECT * FROM accounts FOR UPDATE", []),
        (
            (
                "SELECT n.id FROM nodes n JOIN pools AS p ON p.id = n.pool_id ORDER BY n.id"
                " FOR SHARE OF n"
            ),
            [("nodes", "share")],
        ),
        (
            "SELECT n.id FROM pools p, nodes n WHERE p.id = n.pool_id FOR SHARE OF p, n NOWAIT",
            [("pools", "share"), ("nodes", "share")],
        ),
        (
            (
                "WITH due AS (SELECT id FROM work_queue ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)"
                " UPDATE work_queue SET a = 1 FROM due"
            ),
            [("work_queue", "write"), ("work_queue", "write")],
        ),
        (
            (
                "WITH freed AS (DELETE FROM device_bookings RETURNING id),"
                " gone AS (UPDATE nodes SET a = 1 RETURNING 1) INSERT INTO outbox SELECT 1"
            ),
            [("device_bookings", "write"), ("nodes", "write"), ("outbox", "write")],
        ),
        (
            (
                "INSERT INTO device_bookings SELECT d.id FROM devices d"
                " WHERE d.id IN (SELECT 1 FROM nodes) ORDER BY d.id FOR SHARE"
            ),
            [("devices", "share"), ("device_bookings", "write")],
        ),
        ("SELECT substring(name FROM 1 FOR 3) FROM nodes", []),
    ],
)
def test_the_locks_of_a_statement(statement, expected):
    assert [tuple(lock) for lock in lock_order.locks_of(statement)] == expected


def test_the_order_is_the_rule():
    assert locking.LOCK_ORDER[0] == "leases"
    assert locking.LOCK_ORDER[-3:] == ("work_queue", "outbox", "pool_hardware")
    assert len(set(locking.LOCK_ORDER)) == len(locking.LOCK_ORDER)
