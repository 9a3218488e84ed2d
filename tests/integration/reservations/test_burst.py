"""Many begin and end in the same second: all of it is done, late at worst, and seen (C25-C27).

To make so many by admission would take long. So two are made, one that ends and one that begins
then, on the same device; their rows are copied, each pair to a device of its own, and the
invariants say that no row is one that the product could not have made.
"""

import itertools
import os
from collections import Counter
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models import F

from bettercompute import failpoints
from bettercompute.coordination import checks, owner, workqueue
from bettercompute.coordination.models import WorkItem
from bettercompute.coordination.runner import Runner
from bettercompute.failpoints import Failpoint
from bettercompute.wiring import reconcilers
from nodes.models import Assignment
from outbox.models import Event
from pools.models import QuotaUsage
from reservations.models import Reservation
from tests.support import cast, invariants, make

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.case(17),
    pytest.mark.rule("C25", "C26", "C27", "R24"),
]

PAIRS = int(os.environ.get("PAIRS", "40"))  # so many end, and so many begin; 2000 take minutes
LATE = timedelta(seconds=90)
SAMPLE = 10

# Table, and what of a row differs in its copy number n.
COPIED = {
    "nodes": "'id', id || n, 'name', name || n",
    "devices": "'id', id || n, 'gpu_id', gpu_id || n, 'node_id', node_id || n",
    "node_resources": "'id', id + n * 1000, 'node_id', node_id || n",
    "reservations": "'id', id || n, 'idempotency_key', idempotency_key || n",
    "allocations": """'id', id || n, 'reservation_id', reservation_id || n, 'node_id', node_id || n,
        'device_ids', jsonb_build_array(device_ids[1] || n)""",
    "assignments": """'allocation_id', allocation_id || n, 'owner_key', owner_key || n,
        'node_id', node_id || n, 'device_ids', jsonb_build_array(device_ids[1] || n)""",
    "device_bookings": """'id', id + n * 1000, 'allocation_id', allocation_id || n,
        'device_id', device_id || n""",
    "resource_bookings": """'id', id + n * 1000, 'allocation_id', allocation_id || n,
        'node_id', node_id || n""",
    "quota_charges": "'id', id + n * 1000, 'owner_key', owner_key || n",
    "outbox": "'seq', seq + n * 1000, 'id', id || n, 'subject', subject || n",
}
COPY = """
INSERT INTO {table}
SELECT (jsonb_populate_record({table}, jsonb_build_object({changes}))).*
FROM {table}, generate_series(1, %s) AS n
"""
CHARGE = "UPDATE quota_usage SET used = used * %s, max = max * %s"


@pytest.fixture
def ending_and_beginning(clock) -> tuple[list[str], list[str]]:
    """So many that are active and end in an hour, and so many that begin then."""
    pool, alice = make.pool(nodes=1, gpus=1, maxPending="1d"), cast.caller("alice")
    first = make.active(alice, pool, duration="1h")
    start = clock.now_ms() + 3_600_000
    second = make.look(make.reservation(alice, pool, start=start, duration="2h"))
    with connection.cursor() as cursor:
        for table, changes in COPIED.items():
            cursor.execute(COPY.format(table=table, changes=changes), [PAIRS - 1])
        cursor.execute(CHARGE, [PAIRS, PAIRS])
        cursor.execute("ANALYZE")
    due = clock.now() + timedelta(hours=1)
    WorkItem.objects.all().delete()
    ids = tuple(
        list(Reservation.objects.filter(state=made.state).values_list("pk", flat=True))
        for made in (first, second)
    )
    workqueue.enqueue_many([("reservation", key, due) for key in ids[0] + ids[1]])
    assert [len(each) for each in ids] == [PAIRS, PAIRS]
    assert invariants.violations() == []
    return ids


def test_all_that_end_and_begin_in_one_second_do_though_a_worker_dies_among_them(
    clock, monkeypatch, ending_and_beginning
) -> None:
    ending, beginning = ending_and_beginning
    clock.advance(timedelta(hours=1) + LATE)
    assert workqueue.lag() == (2 * PAIRS, LATE)
    (late,) = checks.queue_lag()
    assert late.check == "queue.lag"
    assert f"{2 * PAIRS} rows" in late.message

    _die_after(PAIRS // 3)
    left, worst = workqueue.lag()
    assert left > PAIRS
    assert worst >= LATE, "what is left has waited longer, and this is seen"
    monkeypatch.setattr(owner, "OWNER", "own_another")
    clock.advance("15s")  # the dead one's leases lapse
    worker = Runner(reconcilers())
    worker.drain(limit=20 * PAIRS)

    assert workqueue.lag() == (0, timedelta(0))
    assert checks.queue_lag() == []
    assert _states(ending) == {"released": PAIRS}
    assert _states(beginning) == {"binding": PAIRS}
    # Late or not, each ended at its end, once, and pays no longer.
    ended = Event.objects.filter(type="reservation.released").values("subject").distinct()
    assert ended.count() == Event.objects.filter(type="reservation.released").count() == PAIRS
    whole = Reservation.objects.filter(pk__in=ending, ends_at=F("starts_at") + timedelta(hours=1))
    assert whole.count() == PAIRS
    assert QuotaUsage.objects.get(resource="gpuMilli").used == PAIRS * 1_000
    # Nobody gets a device whose node has not let go; asked were all of them.
    assert Assignment.objects.filter(owner_key__in=ending, wanted=True).count() == 0
    assert Assignment.objects.filter(owner_key__in=beginning, entered_at=None).count() == PAIRS
    assert invariants.violations() == []

    for key in ending[:SAMPLE]:
        make.report(Reservation.objects.get(pk=key), "released")
        workqueue.enqueue("reservation", key)
    worker.drain()
    entered = Assignment.objects.filter(owner_key__in=beginning, entered_at__isnull=False)
    assert entered.count() == SAMPLE
    assert invariants.violations() == []


class Killed(BaseException):
    """SIGKILL: nothing is caught, finished or given up."""


def _die_after(rows: int) -> None:
    """A worker that dies behind the commit of its n-th row, before it has finished it."""
    seen = itertools.count(1)

    def die() -> None:
        if next(seen) == rows:
            raise Killed

    failpoints.arm(Failpoint.WORK_RECONCILED, die)
    with pytest.raises(Killed):
        Runner(reconcilers()).drain()
    failpoints.disarm()


def _states(keys: list[str]) -> dict[str, int]:
    return dict(Counter(Reservation.objects.filter(pk__in=keys).values_list("state", flat=True)))
