"""Two worker processes and several sinks: one breaks, one hangs, a worker is killed (C22, C28)."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bettercompute.celery import app
from bettercompute.coordination import leases
from outbox import checks, dispatch, events, reader
from outbox.models import Cursor
from tests.support import clusters
from tests.support.deployment import delivered
from tests.support.deployment.delivered import Delivery

pytestmark = pytest.mark.django_db(transaction=True)

TICK = "bettercompute.coordination.tasks.tick"
QUIET = ("--loglevel=CRITICAL", "--without-gossip", "--without-mingle", "--without-heartbeat")


@contextmanager
def workers(place: Path, *, count: int) -> Iterator[dict[int, subprocess.Popen[bytes]]]:
    """Celery workers by process id."""
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.settings_sinks",
        "DATABASE_URL": clusters.this_one(),
        "SINKS_IN": str(place),
    }
    command = [sys.executable, "-m", "celery", "-A", "bettercompute.celery", "worker", *QUIET]
    started = [subprocess.Popen(command, env=environment) for _ in range(count)]
    try:
        yield {process.pid: process for process in started}
    finally:
        for process in started:
            process.kill()
            process.wait()


def publish(first: int, last: int) -> None:
    """In one transaction, so that they come in one batch."""
    names = [str(number) for number in range(first, last)]
    events.publish_many(
        events.NewEvent("pool.created", "ten_a", f"pool/{name}", {"poolId": name}) for name in names
    )


def told(place: Path, sink: str) -> list[Delivery]:
    return list(delivered.read(place / sink))


def numbers(deliveries: list[Delivery]) -> list[int]:
    return [int(each.subject.removeprefix("pool/")) for each in deliveries]


@pytest.mark.rule("C22", "C28")
def test_sinks_get_every_event_in_order_whoever_breaks_hangs_or_is_killed(clock, tmp_path):
    def wait_for(condition, *, time_passes=False):
        def look() -> bool:
            app.send_task(TICK)
            if time_passes:
                clock.advance("50ms")
            return condition()

        clusters.wait_until(look)

    def has(sink: str, count: int) -> bool:
        return len(set(numbers(told(tmp_path, sink)))) == count

    for number in range(150):
        publish(number, number + 1)
    with workers(tmp_path, count=2) as running:
        wait_for(lambda: has("steady", 150) and has("fragile", 150))
        (tmp_path / "hang").touch()
        publish(150, 200)
        wait_for(lambda: has("fragile", 200))  # told, and the cursor not yet moved
        wait_for(lambda: has("steady", 200))  # one that hangs delays no other
        killed = told(tmp_path, "fragile")[-1].pid
        assert Cursor.objects.get(sink="fragile").seq < reader.end().seq
        epoch = leases.current(f"singleton:{dispatch.lease_name('fragile')}").epoch
        running[killed].send_signal(signal.SIGKILL)
        running[killed].wait()
        (tmp_path / "hang").unlink()
        publish(200, 230)
        clock.advance("20s")
        wait_for(lambda: has("steady", 230) and has("fragile", 230), time_passes=True)
        wait_for(lambda: not pending("fragile"), time_passes=True)
        after = leases.current(f"singleton:{dispatch.lease_name('fragile')}")

    assert numbers(told(tmp_path, "steady")) == list(range(230))
    fragile = told(tmp_path, "fragile")
    repeated = [each for each in fragile if each.pid != killed][: len(fragile) - 230]
    assert 0 < len(repeated) <= dispatch.BATCH_MAX
    # The next holder began where the cursor stood, with the same ids.
    before = {each.id: each for each in fragile if each.pid == killed}
    assert all(before[each.id].position == each.position for each in repeated)
    assert numbers(list({each.id: each for each in fragile}.values())) == list(range(230))
    assert after.epoch == epoch + 1

    clock.advance("2m")
    (finding,) = checks.lag()
    assert finding.message.startswith("broken has 230 events before it")


def pending(sink: str) -> int:
    return next(count for name, count, _ in dispatch.lag() if name == sink)
