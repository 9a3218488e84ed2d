"""What idle event streams cost one server process, and how quickly an event reaches all of them.

    make bench ARGS="streams"

It makes a database of its own, starts the real server with one process, opens the streams over
loopback sockets, lets them idle, and publishes some events, with hints through Valkey and without.
Printed: the process's memory before, with the streams and after, the part of a core that it takes
while nothing happens, and the time from commit to arrival over all streams.
"""

import argparse
import asyncio
import os
import statistics
import time
from dataclasses import dataclass, field

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

import django
import psutil

django.setup()  # before any module that has models

from django.conf import settings  # noqa: E402
from django.db import connection, connections  # noqa: E402
from django.test.utils import setup_databases, teardown_databases  # noqa: E402

from bettercompute.iam import memberships, tokens  # noqa: E402
from bettercompute.iam.models import Account, Role  # noqa: E402
from outbox import events  # noqa: E402
from tests.support import cast, web_server  # noqa: E402

EVENTS = 10
PER_ACCOUNT = 40  # of 50 that one may have
WAIT_SECONDS = 60.0
IDLE_SECONDS = 30.0


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


def publish(subject: str, tenant_id: str) -> float:
    """One event; answers when it was committed."""
    data = {"state": "pending", "poolId": "pool_a"}
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
    idle, began = rss_kib(worker), spent_seconds(worker)
    await asyncio.sleep(IDLE_SECONDS)
    core = (spent_seconds(worker) - began) / IDLE_SECONDS
    print(f"streams          {count}")
    print(f"RSS before       {before / 1024:.1f} MiB")
    print(f"RSS idle         {idle / 1024:.1f} MiB ({(idle - before) / count:.1f} KiB a stream)")
    print(f"processor, idle  {core:.1%} of a core")
    for hints in (True, False):
        settings.HINTS = hints
        told = "with hints" if hints else "without hints"
        print(f"{told}, commit to arrival: {await delays(arrivals, tenant_id, count, told)}")
    print(f"RSS after events {rss_kib(worker) / 1024:.1f} MiB")
    for task in listeners:
        task.cancel()


async def delays(arrivals: Arrivals, tenant_id: str, count: int, name: str) -> str:
    """Publish, one event after the other; how long each took to each stream.

    The first is not counted: whoever publishes it connects to the broker.
    """
    found: list[float] = []
    for number in range(EVENTS + 1):
        subject = f"reservation/{name.replace(' ', '-')}-{number}"
        committed = await asyncio.to_thread(publish, subject, tenant_id)
        until = time.perf_counter() + WAIT_SECONDS
        while len(arrivals.seconds.get(subject, [])) < count and time.perf_counter() < until:
            await asyncio.sleep(0.02)
        if number:
            found += [at - committed for at in arrivals.seconds[subject]]
    cuts = statistics.quantiles(found, n=100)
    return f"p50 {cuts[49]:.3f} s, p99 {cuts[98]:.3f} s, max {max(found):.3f} s"


def reader(name: str) -> str:
    """A token of a member of acme."""
    account = Account.objects.create_user(username=name)
    memberships.add(account, cast.tenant(), role=Role.MEMBER)
    return tokens.mint(account, cast.tenant(), name=name)[1]


def worker_of(master: int) -> psutil.Process:
    """The one worker process of a gunicorn."""
    (child,) = psutil.Process(master).children()
    return child


def rss_kib(process: psutil.Process) -> float:
    """Its resident memory."""
    return float(process.memory_info().rss) / 1024


def spent_seconds(process: psutil.Process) -> float:
    """Its processor time so far."""
    times = process.cpu_times()
    return float(times.user + times.system)


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
