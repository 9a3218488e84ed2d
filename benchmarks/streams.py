"""What idle event streams cost one server process, and how quickly an event reaches all of them.

    python -m bettercompute.embedded.run_with -- python -m benchmarks.streams --streams 1000

It makes a database of its own, starts the real server with one process, opens the streams over
loopback sockets, and publishes some events. Printed: the process's memory before, with the streams
and after, and the time from commit to arrival over all streams.
"""

import argparse
import asyncio
import os
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

import django

django.setup()  # before any module that has models

from django.db import connection, connections  # noqa: E402
from django.test.utils import setup_databases, teardown_databases  # noqa: E402

from bettercompute.iam import memberships, tokens  # noqa: E402
from bettercompute.iam.models import Account, Role  # noqa: E402
from outbox import events  # noqa: E402
from tests.support import cast, web_server  # noqa: E402

EVENTS = 10
PER_ACCOUNT = 40  # of 50 that one may have
WAIT_SECONDS = 60.0
PAGE_KIB = os.sysconf("SC_PAGE_SIZE") / 1024


@dataclass(slots=True)
class Arrivals:
    """When each event arrived where."""

    seconds: dict[str, list[float]] = field(default_factory=dict)

    def note(self, subject: str) -> None:
        """It arrived at one more stream."""
        self.seconds.setdefault(subject, []).append(time.perf_counter())


async def listen(port: int, token: str, arrivals: Arrivals, opened: asyncio.Event) -> None:
    """One stream, read as bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    request = (
        "GET /api/v1/events/stream HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: Bearer {token}\r\nAccept: text/event-stream\r\n\r\n"
    )
    writer.write(request.encode())
    assert b" 200 " in await reader.readline()
    while line := await reader.readline():
        if line.startswith(b"id:"):
            opened.set()
        elif line.startswith(b"data:"):
            arrivals.note(line.partition(b'"subject":"')[2].partition(b'"')[0].decode())


def publish(number: int, tenant_id: str) -> float:
    """One event; answers when it was committed."""
    data = {"state": "pending", "poolId": "pool_a"}
    subject = f"reservation/n{number}"
    events.publish("reservation.pending", tenant_id=tenant_id, subject=subject, data=data)
    connections.close_all()
    return time.perf_counter()


async def measure(
    server: web_server.WebServer, secrets: list[str], tenant_id: str, count: int
) -> None:
    """Open the streams, publish, and print."""
    worker = worker_of(server.pid)
    before = rss_kib(worker)
    arrivals = Arrivals()
    listeners = []
    for number in range(count):
        opened = asyncio.Event()
        token = secrets[number % len(secrets)]
        listeners.append(asyncio.create_task(listen(server.port, token, arrivals, opened)))
        await asyncio.wait_for(opened.wait(), WAIT_SECONDS)
    await asyncio.sleep(2)
    idle = rss_kib(worker)
    delays = []
    for number in range(EVENTS):
        committed = await asyncio.to_thread(publish, number, tenant_id)
        subject = f"reservation/n{number}"
        until = time.perf_counter() + WAIT_SECONDS
        while len(arrivals.seconds.get(subject, [])) < count and time.perf_counter() < until:
            await asyncio.sleep(0.02)
        delays += [at - committed for at in arrivals.seconds[subject]]
    busy = rss_kib(worker)
    for task in listeners:
        task.cancel()
    print(f"streams          {count}")
    print(f"RSS before       {before / 1024:.1f} MiB")
    print(f"RSS idle         {idle / 1024:.1f} MiB ({(idle - before) / count:.1f} KiB a stream)")
    print(f"RSS after events {busy / 1024:.1f} MiB")
    cuts = statistics.quantiles(delays, n=100)
    print(f"commit to arrival p50 {cuts[49]:.3f} s, p99 {cuts[98]:.3f} s, max {max(delays):.3f} s")


def reader(name: str) -> str:
    """A token of a member of acme."""
    account = Account.objects.create_user(username=name)
    memberships.add(account, cast.tenant(), role=Role.MEMBER)
    return tokens.mint(account, cast.tenant(), name=name)[1]


def worker_of(master: int) -> int:
    """The one worker process of a gunicorn."""
    (child,) = Path(f"/proc/{master}/task/{master}/children").read_text().split()
    return int(child)


def rss_kib(pid: int) -> float:
    """The resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_KIB


def main() -> None:
    """Set up, measure, take down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=1_000)
    count = parser.parse_args().streams
    made = setup_databases(verbosity=0, interactive=False)
    try:
        tenant_id = cast.tenant().pk
        secrets = [reader(f"reader-{number}") for number in range(-(-count // PER_ACCOUNT))]
        with web_server.running(workers=1) as server:
            asyncio.run(measure(server, secrets, tenant_id, count))
    finally:
        connection.close()
        teardown_databases(made, verbosity=0)


if __name__ == "__main__":
    main()
