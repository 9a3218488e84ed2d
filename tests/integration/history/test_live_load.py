"""A real load on a real server, recorded and checked; and servers broken on purpose, found out."""

import random
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, connections
from pytest_django.live_server_helper import LiveServer

from bettercompute import clock, failpoints, ids, wiring
from bettercompute.coordination.runner import Runner
from bettercompute.failpoints import Failpoint
from nodes.models import Node
from pools import quota
from pools.models import Offer
from pools.requests import NormalisedRequest
from reservations import ending, queries
from tests.support import cast, invariants, make, races
from tests.support.history import __main__ as command
from tests.support.history import checker, final, recording
from tests.support.history.anomalies import Anomaly, Kind
from tests.support.history.clients import Load
from tests.support.history.recording import FinalState, Recorder
from tests.support.history.wishes import Seat, Wishes
from tests.support.storm_agents import Agent

pytestmark = pytest.mark.django_db(transaction=True)

Patch = pytest.MonkeyPatch

ROUNDS_MAX = 8  # one does, but where threads come in an unlucky order
PLANNING_SECONDS = 0.1  # long enough for a rival to plan with the same snapshot


@pytest.fixture
def seats() -> list[Seat]:
    """Alice and Bob of acme, Mallory of globex, who share one pool of two machines."""
    pool = make.pool(nodes=2, gpus=4, quota_gpus=9)
    Offer.objects.create(pool=pool, tenant=cast.tenant("globex"))
    make.grant("globex", gpus=6)
    return [
        Seat(name, cast.token(name)[1], cast.account(name).memberships.get().tenant_id, (pool.pk,))
        for name in ("alice", "bob", "mallory")
    ]


@contextmanager
def control_plane() -> Iterator[None]:
    """A worker and the nodes' agents, at work while time passes."""
    stop = threading.Event()
    agents = [Agent(node.pk) for node in Node.objects.all()]
    rng = random.Random(1)

    def work() -> None:
        try:
            runner = Runner(wiring.reconcilers())
            while not stop.wait(0.02):
                runner.drain(limit=20)
                for agent in agents:
                    agent.report(silent=0.1, failing=0.1, rng=rng)
                clock.advance_sim_clock(timedelta(milliseconds=300))
        finally:
            connections.close_all()

    thread = threading.Thread(target=work, name="control plane")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def run(
    url: str, seats: list[Seat], recorder: Recorder, *, operations: int, **how: Any
) -> tuple[Load, FinalState]:
    """The load until all its operations are done, and the final state."""
    load = Load(
        recorder, [url], seats=seats, rate=500.0, operations_max=operations, **{"seed": 3, **how}
    )
    with control_plane(), load:
        load.wait()
    return load, final.read(recorder, [url], seats, bookings=_rows(final.BOOKINGS_SQL))


def _rows(statement: str) -> list[dict[str, Any]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        names = [column.name for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


@pytest.mark.rule("C2", "C9", "C14", "C28", "R8")
@pytest.mark.case(33)
def test_a_real_load_is_recorded_and_has_no_anomaly(
    live_server: LiveServer,
    seats: list[Seat],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "history.jsonl"
    with Recorder(path) as recorder:
        load, end = run(live_server.url, seats, recorder, operations=200)

    history = recorder.history()
    assert [str(each) for each in checker.check(history, end)] == []
    assert invariants.violations() == []
    assert invariants.lost(load.acknowledged) == []
    assert {"create 201", "create 200", "release 200", "list 200", "get 404"} <= set(load.tally)

    assert recording.read(path) == history
    assert command.main([str(path)]) == 0
    assert capsys.readouterr().out.endswith(f"{path}: 0 anomalies\n")


# --- negative controls: what the checker sees of a server with a guard taken away -----------------


def _no_exclusion(patch: Patch) -> Callable[[], None]:
    """Two plans of one snapshot are both booked."""
    (row,) = _rows(
        "SELECT pg_get_constraintdef(oid) AS definition FROM pg_constraint"
        " WHERE conname = 'booking_no_overlap'"
    )
    _run("ALTER TABLE device_bookings DROP CONSTRAINT booking_no_overlap")
    failpoints.arm(Failpoint.PLACEMENT_PLANNED, lambda: time.sleep(PLANNING_SECONDS))

    def restore() -> None:
        _run("DELETE FROM device_bookings")
        _run("ALTER TABLE device_bookings ADD CONSTRAINT booking_no_overlap " + row["definition"])

    return restore


def _no_memory_of_keys(patch: Patch) -> None:
    patch.setattr(ids, "reservation", lambda *_: f"rsv_{secrets.token_hex(16)}")


def _no_look_at_the_body(patch: Patch) -> None:
    patch.setattr(NormalisedRequest, "hash", "the same")


def _no_end(patch: Patch) -> None:
    patch.setattr(ending, "end", lambda *_, **__: None)


def _old_reads(patch: Patch) -> None:
    """A cache that nobody empties."""
    cached: dict[str, Any] = {}
    read = queries.get

    def get(caller: Any, reservation_id: str) -> Any:
        shown = read(caller, reservation_id)
        return cached.setdefault(reservation_id, shown)

    patch.setattr(queries, "get", get)


def _no_limit(patch: Patch) -> None:
    races.without(
        patch,
        quota.QUOTA,
        "charge",
        "AND bool_and(locked_rows.amount <= locked_rows.max - locked_rows.used)",
    )


def _no_refund(patch: Patch) -> None:
    patch.setattr(quota, "refund", lambda _: None)


def _short_lists(patch: Patch) -> None:
    page = queries.page

    def without_the_second(*args: Any, **how: Any) -> queries.Page:
        found = page(*args, **how)
        return queries.Page(found.items[:1] + found.items[2:], found.next_cursor)

    patch.setattr(queries, "page", without_the_second)


Break = Callable[[Patch], Callable[[], None] | None]

#: What is broken, and which operations meet it.
BREAKS: dict[Kind, tuple[Break, dict[str, int]]] = {
    Kind.DOUBLE_HOLDING: (_no_exclusion, {"create": 4, "get": 1, "list": 1}),
    Kind.KEY_MADE_TWO: (_no_memory_of_keys, {"create": 1, "replay": 2}),
    Kind.OTHER_BODY_ACCEPTED: (_no_look_at_the_body, {"create": 1, "twist": 2}),
    Kind.NOT_ENDED: (_no_end, {"create": 1, "release": 1}),
    Kind.STALE_READ: (_old_reads, {"create": 1, "get": 6, "release": 1, "list": 2}),
    Kind.OVER_QUOTA: (_no_limit, {"create": 3, "list": 1}),
    Kind.QUOTA_LEAKED: (_no_refund, {"create": 2, "release": 1}),
    Kind.LIST_LACKS: (_short_lists, {"create": 1, "list": 2}),
}
#: So many ask for so much at once that whatever is not guarded goes wrong.
HARD = Wishes(gpus=(1, 2), durations=("20m", "1h", "2h"), future=0.3, slots=2, gangs=0.0)


@pytest.mark.parametrize("kind", BREAKS)
def test_a_server_without_its_guard_is_found_out(
    kind: Kind, live_server: LiveServer, seats: list[Seat], monkeypatch: Patch
) -> None:
    recorder = Recorder()
    break_, mix = BREAKS[kind]
    restore = break_(monkeypatch)
    how: dict[str, Any] = {"wishes": HARD, "threads": 6, "live_max": 40, "mix": mix}
    found: list[Anomaly] = []
    try:
        for seed in range(ROUNDS_MAX):
            _, end = run(live_server.url, seats, recorder, operations=60, seed=seed, **how)
            found = checker.check(recorder.history(), end)
            if kind in {anomaly.kind for anomaly in found}:
                break
    finally:
        if restore is not None:
            restore()
    assert kind in {anomaly.kind for anomaly in found}, list(map(str, found))


def _run(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)
