"""A real load on a real server, recorded and checked; and servers broken on purpose, found out."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connections
from pytest_django.live_server_helper import LiveServer

from bettercompute import clock, wiring
from bettercompute.coordination.runner import Runner
from nodes.models import Node
from pools.models import Offer
from tests.support import cast, invariants, make
from tests.support.history import checker, final, recording
from tests.support.history.clients import Load
from tests.support.history.recording import FinalState, Recorder
from tests.support.history.wishes import Seat
from tests.support.storm import Agent

pytestmark = pytest.mark.django_db(transaction=True)

OPERATIONS = 250


@pytest.fixture
def seats() -> list[Seat]:
    """Alice and Bob of acme, Mallory of globex, who share one pool of three machines."""
    pool = make.pool(nodes=3, gpus=4, quota_gpus=14)
    Offer.objects.create(pool=pool, tenant=cast.tenant("globex"))
    make.grant("globex", gpus=10)
    return [
        Seat(name, cast.token(name)[1], cast.account(name).memberships.get().tenant_id, (pool.pk,))
        for name in ("alice", "bob", "mallory")
    ]


@contextmanager
def control_plane() -> Iterator[None]:
    """A worker and the nodes' agents, at work while time passes."""
    stop = threading.Event()
    agents = [Agent(node.pk) for node in Node.objects.all()]

    def work() -> None:
        try:
            runner = Runner(wiring.reconcilers())
            while not stop.wait(0.02):
                runner.drain(limit=20)
                for agent in agents:
                    agent.report(silent=0.0, failing=0.0)
                clock.advance_sim_clock(timedelta(milliseconds=200))
        finally:
            connections.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def run(url: str, seats: list[Seat], recorder: Recorder, **how: object) -> tuple[Load, FinalState]:
    """The load until all its operations are done, and the final state."""
    load = Load(
        recorder, [url], seats=seats, rate=500.0, operations_max=OPERATIONS, **{"seed": 3, **how}
    )
    with load:
        load.wait()
    return load, final.read(recorder, [url], seats, bookings=rows(final.BOOKINGS_SQL))


def rows(statement: str) -> list[dict[str, object]]:
    with connections["default"].cursor() as cursor:
        cursor.execute(statement)
        names = [column.name for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def test_a_real_load_is_recorded_and_has_no_anomaly(
    live_server: LiveServer, seats: list[Seat], tmp_path: Path
) -> None:
    path = tmp_path / "history.jsonl"
    with Recorder(path) as recorder, control_plane():
        load, end = run(live_server.url, seats, recorder)

    history = recorder.history()
    assert [str(each) for each in checker.check(history, end)] == []
    assert invariants.violations() == []
    assert invariants.lost(load.acknowledged) == []
    assert recording.read(path) == history
