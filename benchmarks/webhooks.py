"""Webhooks: deliveries a second to a receiver on this machine, the delay from commit to arrival.

One worker sends, as ``up`` starts it. The delay is taken by probes: events whose commit this
process saw, and whose arrival it sees as well, alone and while clients reserve over HTTP.
"""

import asyncio
import os
import re
import statistics
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from benchmarks import cpu, deployment
from benchmarks.deployment import Deployment

ENDPOINTS = (1, 50)
DELIVERIES = 3_000
#: The worker is counted as web is: Python that is not this process.
PARTS = {cpu.POSTGRES: "PostgreSQL", cpu.WEB: "worker"}
PROBES_PER_SECOND = 10
CLIENTS = 4
NODES = 100
WARM_UP_SECONDS = 5.0
WAIT_SECONDS_MAX = 120
_ID = re.compile(rb"webhook-id: *([^\r\n]+)", re.IGNORECASE)
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


@dataclass
class Receiver:
    """When each message came, by its id."""

    url: str = ""
    arrived: dict[str, list[float]] = field(default_factory=dict)
    count: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take messages from one connection and say thanks."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = _LENGTH.search(head)
                await reader.readexactly(int(length[1]) if length else 0)
                found = _ID.search(head)
                assert found is not None
                self.arrived.setdefault(found[1].decode(), []).append(time.monotonic())
                self.count += 1
                writer.write(_ANSWER)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def wait_for(self, count: int) -> None:
        """Until so many have come."""
        until = time.monotonic() + WAIT_SECONDS_MAX
        while self.count < count:
            if time.monotonic() > until:
                raise RuntimeError(f"only {self.count} of {count} arrived")
            time.sleep(0.01)


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver in a thread of its own."""
    receiver = Receiver()
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(receiver.serve, "127.0.0.1", 0))
    receiver.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        loop.call_soon_threadsafe(server.close)  # its thread ends with the process


def main(*, seconds: float) -> None:
    """Measure and print."""
    os.environ["BETTERCOMPUTE_WEBHOOK_NETWORKS"] = "127.0.0.1"
    os.environ["BETTERCOMPUTE_WEBHOOK_PLAIN_HTTP"] = "true"
    with deployment.running(worker=True) as here, receiving() as receiver:
        from benchmarks import supply

        person = supply.person()
        stocked = supply.h100s(NODES)
        # The worker goes on from the events that this made.
        for endpoints in ENDPOINTS:
            rate, spent = _rate(receiver, person, endpoints)
            costly = ", ".join(
                f"{name} {spent.milliseconds_each(part, DELIVERIES):.2f} ms"
                for part, name in PARTS.items()
            )
            _say(f"{endpoints} endpoint(s): {rate:.0f} deliveries/s; processor time each: {costly}")
        _keep_one(person)
        _say(f"delay, idle: {_percentiles(_probe(receiver, person, seconds))}")
        rate, delays = _under_load(here, receiver, person, stocked, seconds=seconds)
        _say(f"delay, under {rate:.0f} creates/s: {_percentiles(delays)}")


def _rate(receiver: Receiver, person: object, endpoints: int) -> tuple[float, cpu.Spent]:
    """Deliveries a second, from the first arrival to the last of a backlog, and what they cost."""
    _make_endpoints(receiver, person, endpoints)
    _publish(person)
    receiver.wait_for(receiver.count + 1)  # each is called once before: it is known to answer
    time.sleep(2)
    before, start = receiver.count, len(receiver.arrived)
    events = DELIVERIES // endpoints
    with cpu.counted() as spent:
        ids = _publish(person, events)
        receiver.wait_for(before + events * endpoints)
    times = sorted(at for each in ids for at in receiver.arrived[each])
    assert len(receiver.arrived) == start + events
    return len(times) / (times[-1] - times[0]), spent


def _make_endpoints(receiver: Receiver, person: object, wanted: int) -> None:
    from bettercompute.iam import callers
    from bettercompute.iam.models import Account
    from outbox.models import WebhookEndpoint
    from outbox.webhooks import endpoints

    account = Account.objects.get(pk=person.account_id)  # type: ignore[attr-defined]
    caller = callers.for_tenant(account, person.tenant_id)  # type: ignore[attr-defined]
    draft = endpoints.Draft(receiver.url, event_types=["pool.changed"])
    for _ in range(wanted - WebhookEndpoint.objects.count()):
        endpoints.create(caller, draft)


def _keep_one(person: object) -> None:
    from outbox.models import WebhookEndpoint

    kept = WebhookEndpoint.objects.order_by("id")[:1].values("pk")
    WebhookEndpoint.objects.exclude(pk__in=kept).update(enabled_at="2100-01-01T00:00:00Z")
    # The one that is left is told of everything from now on.
    WebhookEndpoint.objects.filter(pk__in=kept).update(event_types=[])


def _publish(person: object, count: int = 1) -> Sequence[str]:
    """Events in one transaction; answers their ids."""
    from outbox import events
    from outbox.models import Event

    tenant_id = person.tenant_id  # type: ignore[attr-defined]
    data = {"poolId": "pool_bench"}
    last = Event.objects.order_by("-seq").values_list("seq", flat=True).first() or 0
    new = [events.NewEvent("pool.changed", tenant_id, "pool/pool_bench", data)] * count
    events.publish_many(new)
    found = Event.objects.filter(seq__gt=last, type="pool.changed")
    return list(found.values_list("id", flat=True))


def _probe(receiver: Receiver, person: object, seconds: float) -> list[float]:
    """The delays of single events, in milliseconds."""
    committed: dict[str, float] = {}
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        now = time.monotonic()
        committed.update(dict.fromkeys(_publish(person), now))
        time.sleep(1 / PROBES_PER_SECOND)
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not committed.keys() <= receiver.arrived.keys() and time.monotonic() < deadline:
        time.sleep(0.05)
    return [(receiver.arrived[each][0] - at) * 1_000 for each, at in committed.items()]


def _under_load(
    here: Deployment, receiver: Receiver, person: object, stocked: object, *, seconds: float
) -> tuple[float, list[float]]:
    from benchmarks.load import HOUR_MS, Load
    from bettercompute import clock

    base_ms = clock.now_ms() // HOUR_MS * HOUR_MS
    warm = Load(here.url, person, stocked, base_ms, "warm-up")  # type: ignore[arg-type]
    warm.create(clients=CLIENTS, seconds=WARM_UP_SECONDS)
    load = Load(here.url, person, stocked, base_ms, "webhooks")  # type: ignore[arg-type]
    found: list[object] = []
    reserving = threading.Thread(
        target=lambda: found.append(load.create(clients=CLIENTS, seconds=seconds)[0])
    )
    reserving.start()
    delays = _probe(receiver, person, seconds)
    reserving.join()
    return found[0].rate, delays  # type: ignore[attr-defined]


def _percentiles(delays: Sequence[float]) -> str:
    cuts = statistics.quantiles(delays, n=100)
    return f"p50 {cuts[49]:.0f} ms, p99 {cuts[98]:.0f} ms ({len(delays)} probes)"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
