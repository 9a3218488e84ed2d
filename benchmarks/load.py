"""Clients over HTTP: each a thread with one connection that asks again once it is answered."""

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from benchmarks.supply import Person, Supply

HOUR_MS = 3_600_000
# Windows are spread over so many hours, so that the pool's capacity lasts.
HOURS = 24 * 14
TIMEOUT_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Measured:
    """What so many clients saw."""

    clients: int
    seconds: float
    latencies_ms: Sequence[float]

    @property
    def rate(self) -> float:
        """Answers per second, of all clients together."""
        return len(self.latencies_ms) / self.seconds

    def percentile(self, share: float) -> float:
        """The latency that this share of the answers does not exceed, in milliseconds."""
        ordered = sorted(self.latencies_ms)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


class Client:
    """One connection of one person."""

    def __init__(self, url: str, person: Person) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(
            str(parts.hostname), parts.port, timeout=TIMEOUT_SECONDS
        )
        self._headers = {
            "Authorization": f"Bearer {person.token}",
            "Content-Type": "application/json",
        }

    def post(self, path: str, body: object, *, expected: int) -> dict[str, object]:
        """One call; any other answer ends the benchmark."""
        self._connection.request("POST", f"/api/v1{path}", json.dumps(body), self._headers)
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status != expected:
            raise RuntimeError(f"{path} answered {answer.status}: {content[:500]!r}")
        document: dict[str, object] = json.loads(content)
        return document

    def close(self) -> None:
        """Hang up."""
        self._connection.close()


@dataclass(frozen=True, slots=True)
class Load:
    """Who asks whom for what."""

    url: str
    person: Person
    supply: Supply
    base_ms: int
    name: str

    def create(self, *, clients: int, seconds: float) -> tuple[Measured, list[str]]:
        """Reservations of one GPU for an hour each, with fresh keys; answers their ids."""
        made: list[str] = []

        def work(client: Client, number: int) -> Iterator[None]:
            count = 0
            while True:
                count += 1
                body = self._request(number * 7 + count)
                body["idempotencyKey"] = f"{self.name}-{clients}-{number}-{count}"
                answer = client.post("/reservations", body, expected=201)
                if answer["state"] != "placed":
                    raise RuntimeError(f"the capacity did not last: {answer['conditions']}")
                made.append(str(answer["id"]))
                yield

        return self._measure(work, clients=clients, seconds=seconds), made

    def preview(self, *, clients: int, seconds: float) -> Measured:
        """Previews of the same requests."""

        def work(client: Client, number: int) -> Iterator[None]:
            count = 0
            while True:
                count += 1
                body = self._request(number * 7 + count)
                answer = client.post("/capacity/preview", body, expected=200)
                if not answer["fits"]:
                    raise RuntimeError("the capacity did not last")
                yield

        return self._measure(work, clients=clients, seconds=seconds)

    def release(self, ids: Sequence[str], *, clients: int) -> Measured:
        """Give all of these back."""

        def work(client: Client, number: int) -> Iterator[None]:
            for reservation_id in ids[number::clients]:
                body = {"tenantId": self.person.tenant_id}
                client.post(f"/reservations/{reservation_id}/release", body, expected=200)
                yield

        return self._measure(work, clients=clients, seconds=float("inf"))

    def _request(self, number: int) -> dict[str, object]:
        return {
            "tenantId": self.person.tenant_id,
            "poolId": self.supply.pool_id,
            "devices": [{"class": "gpu", "count": 1}],
            "start": self.base_ms + (1 + number * 31 % HOURS) * HOUR_MS,
            "duration": "1h",
        }

    def _measure(
        self,
        work: Callable[[Client, int], Iterator[None]],
        *,
        clients: int,
        seconds: float,
    ) -> Measured:
        latencies: list[float] = []
        failures: list[Exception] = []
        gate = threading.Barrier(clients + 1)

        def run(number: int) -> None:
            client = Client(self.url, self.person)
            gate.wait()
            until = time.monotonic() + seconds
            before = time.perf_counter()
            try:
                for _ in work(client, number):
                    now = time.perf_counter()
                    latencies.append((now - before) * 1_000)
                    before = now
                    if time.monotonic() > until:
                        break
            except Exception as error:  # noqa: BLE001  # raised below, in the main thread
                failures.append(error)
            finally:
                client.close()

        threads = [threading.Thread(target=run, args=(number,)) for number in range(clients)]
        for thread in threads:
            thread.start()
        gate.wait()
        started = time.monotonic()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        return Measured(clients, time.monotonic() - started, latencies)
