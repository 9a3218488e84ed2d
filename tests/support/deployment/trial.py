"""A fault on a deployment under load, and what must hold afterwards.

Every request and answer of the load is recorded; in the end the history, the invariants, the rows
and the deliveries must agree, whatever was killed meanwhile.
"""

import contextlib
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import psycopg

from tests.support.deployment import waiting
from tests.support.deployment.deployment import Deployment
from tests.support.history import checker, clients, final
from tests.support.history.clients import Load
from tests.support.history.recording import Call, Operation, Recorder
from tests.support.history.wishes import Seat, Wishes

RATE = 12.0  # operations a second: what two cores bear beside everything else
REQUEST_SECONDS_MAX = 30.0  # two slow cores are no fault; an answer that never comes is one
CALM_SECONDS = 1.0
RECOVERY_SECONDS_MAX = 90.0
MISTAKE_LENGTH = 8_000
WARM_UP = 25  # operations answered before a fault: there is something to lose

# Nothing ends by itself between two readings of what there is, but for what is long over.
WISHES = Wishes(durations=("2s", "20m", "1h"), gpus=(1, 1, 2), leases=0.0)

_MISTAKE = re.compile(r"^.*\[(\x1b\[[0-9;]*m)*error", re.MULTILINE)
_SHAPE = (
    "SELECT coalesce(md5(string_agg(id || state || version, ',' ORDER BY id)), '')"
    " FROM reservations"
)
_CREATED = "SELECT 1 FROM reservations WHERE state <> 'draft' AND created_at > %s LIMIT 1"
_BOUND = "SELECT 1 FROM reservations WHERE bound_at > %s LIMIT 1"
_LIVE = (
    "SELECT id, tenant_id FROM reservations"
    " WHERE state IN ('pending', 'placed', 'binding', 'active') ORDER BY id"
)
_STANDING = {
    "reservations": "SELECT state, count(*), max(created_at) FROM reservations GROUP BY state",
    "assignments": "SELECT wanted, reported, count(*) FROM assignments GROUP BY wanted, reported",
    "sessions": "SELECT node_id, compute_now() - last_seen_at FROM node_sessions",
    "due": "SELECT kind, key, compute_now() - not_before, last_error FROM work_queue LIMIT 20",
    "leases": "SELECT name, owner, expires_at - compute_now() FROM leases",
}
# What can happen to a reservation once only is told by one event.
_TOLD_TWICE = (
    "SELECT subject, type, count(*) FROM outbox"
    " WHERE type IN ('reservation.released', 'reservation.cancelled', 'reservation.failed')"
    " GROUP BY subject, type HAVING count(*) > 1"
)


@dataclass(frozen=True, slots=True)
class Recovery:
    """How long after the end of a fault things worked again, in seconds."""

    fault: str
    seconds: Mapping[str, float]

    def __str__(self) -> str:
        seconds = ", ".join(f"{what} {took:.1f} s" for what, took in self.seconds.items())
        return f"{self.fault}: {seconds}"


@dataclass(slots=True)
class Trial:
    """One deployment with everything that its clients asked and were answered."""

    deployment: Deployment
    recorder: Recorder
    recording: Path
    recoveries: list[Recovery] = field(default_factory=list)

    @property
    def urls(self) -> list[str]:
        return [plane.web.url for plane in self.deployment.planes]

    @property
    def seats(self) -> list[Seat]:
        running = self.deployment
        return [
            Seat(who, running.tokens[who], running.tenants[who], (running.pool_id,))
            for who in ("alice", "mallory")
        ]

    @contextlib.contextmanager
    def load(self, seed: int) -> Iterator[Load]:
        """Clients at work; at the end each of them knows what became of all it asked for."""
        load = Load(
            self.recorder,
            self.urls,
            self.seats,
            seed=seed,
            rate=RATE,
            live_max=10,
            timeout=REQUEST_SECONDS_MAX,
            wishes=WISHES,
            settle_within=RECOVERY_SECONDS_MAX,
        )
        with load:
            waiting.until(
                lambda: sum(load.tally.values()) >= WARM_UP and load.tally["create 201"],
                "the load to have begun",
            )
            yield load

    def reserve(self, key: str, **body: Any) -> Mapping[str, Any]:
        """One reservation of alice's besides the load, as its answer shows it."""
        seat = self.seats[0]
        asked = {
            "tenantId": seat.tenant,
            "poolId": self.deployment.pool_id,
            "devices": [{"class": "gpu", "count": 1}],
            "duration": "1h",
            **body,
        }
        done = self.perform("create", key=key, asked=asked)
        assert done.status == 201, (done.status, done.error, done.document)
        return done.document

    def perform(self, op: str, **how: Any) -> Operation:
        """One recorded request of alice's."""
        return self._perform(op, self.seats[0], **how)

    def _perform(self, op: str, seat: Seat, **how: Any) -> Operation:
        call = Call(
            op, caller=seat.name, tenant=seat.tenant, process="test", url=self.urls[0], **how
        )
        with httpx2.Client(timeout=REQUEST_SECONDS_MAX, trust_env=False) as http:
            return clients.perform(http, self.recorder, call, token=seat.token)

    def recovered(self, fault: str, since: float, **more: float) -> Recovery:
        """Wait until a new reservation is made and bound; ``since``: when the fault ended.

        ``more`` are other times that the fault's recovery took.
        """
        now = waiting.until(self._database_time, "PostgreSQL to answer", RECOVERY_SECONDS_MAX)
        seconds = dict(more)
        for what, statement in (("accepted", _CREATED), ("bound", _BOUND)):
            try:
                waiting.until(
                    lambda statement=statement: self.deployment.sql(statement, now),
                    f"a reservation to be {what} after: {fault}",
                    RECOVERY_SECONDS_MAX,
                )
            except AssertionError as error:
                error.add_note(self._standing())
                raise
            seconds[what] = time.monotonic() - since
        self.recoveries.append(Recovery(fault, seconds))
        return self.recoveries[-1]

    def _standing(self) -> str:
        """What may keep a recovery from coming."""
        running = self.deployment
        everything = [running.agents, *(each for one in running.planes for each in one.processes)]
        alive = [f"{each.name}: {'alive' if each.alive() else 'ended'}" for each in everything]
        rows = [f"{name}: {running.sql(query)}" for name, query in _STANDING.items()]
        return "\n".join([*alive, *rows, *self._mistakes(), *running.findings()])

    def prove(self) -> None:
        """After the load: nothing is broken, lost, untold or late, and the history is possible.

        In the end all is given back, and nothing stays held: the next trial begins like this one.
        """
        running = self.deployment
        broken = self._broken()
        assert not broken, "\n".join(broken)
        settle(running.violations)
        waiting.until(lambda: not running.undelivered(), "every event to be delivered")
        told_twice = running.sql(_TOLD_TWICE)
        assert not told_twice, told_twice
        self._check_history()
        known = {key for (key,) in running.sql("SELECT id FROM reservations")}
        lost = self._acknowledged() - known
        assert not lost, sorted(lost)
        self._give_back()
        settle(running.held)

    def _broken(self) -> list[str]:
        """The invariants that do not hold; right behind a crash the database may not answer yet."""
        found: list[str] = []

        def were_checked() -> bool:
            found[:] = self.deployment.invariants()
            return not any("could not be asked" in each for each in found)

        waiting.until(were_checked, "the invariants to be checked")
        return found

    def _give_back(self) -> None:
        """End every reservation, as its owner."""
        by_tenant = {seat.tenant: seat for seat in self.seats}
        for reservation_id, tenant in self.deployment.sql(_LIVE):
            how: dict[str, Any] = {"target": reservation_id, "asked": {"tenantId": tenant}}
            if not self._perform("release", by_tenant[tenant], **how).acknowledged:
                self._perform("cancel", by_tenant[tenant], **how)

    def _check_history(self) -> None:
        """Read all there is while nothing changes, and compare it with what clients were told."""
        running = self.deployment
        for _ in range(20):
            before = running.sql(_SHAPE)
            time.sleep(CALM_SECONDS)
            names = ("device", "allocation", "start_us", "end_us")
            bookings = [
                dict(zip(names, row, strict=True)) for row in running.sql(final.BOOKINGS_SQL)
            ]
            state = final.read(self.recorder, self.urls, self.seats, bookings=bookings)
            if running.sql(_SHAPE) == before:
                break
        else:
            raise AssertionError("it never comes to rest")
        anomalies = checker.check(self.recorder.history(), state)
        assert not anomalies, "\n".join([*map(str, anomalies), *self._mistakes()])

    def _mistakes(self) -> list[str]:
        """Where the logs begin to tell of mistakes of ours, with the first traceback."""
        found = []
        for log in sorted((self.deployment.home / "logs").glob("*.log")):
            text = log.read_text(errors="replace")
            if first := _MISTAKE.search(text):
                found.append(f"{log.name}: {text[first.start() :][:MISTAKE_LENGTH]}")
        return found

    def _acknowledged(self) -> set[str]:
        return {
            done.document["id"]
            for done in self.recorder.history().operations
            if done.call.op == "create" and done.acknowledged
        }

    def _database_time(self) -> Any:
        with contextlib.suppress(psycopg.Error):
            return self.deployment.sql("SELECT compute_now()")[0][0]
        return None


@contextlib.contextmanager
def of(deployment: Deployment) -> Iterator[Trial]:
    """A trial whose recording is a file outside of the deployment, whose disk may fill up."""
    with (
        tempfile.TemporaryDirectory(prefix="better-compute-trial-") as directory,
        Recorder(Path(directory) / "history.jsonl") as recorder,
    ):
        yield Trial(deployment, recorder, Path(directory) / "history.jsonl")


def settle(found: Callable[[], list[str]], within: float = RECOVERY_SECONDS_MAX) -> None:
    """Wait until nothing is found any more; what is, is said."""
    deadline = time.monotonic() + within
    while still := found():
        assert time.monotonic() < deadline, "\n".join(still)
        time.sleep(0.5)
