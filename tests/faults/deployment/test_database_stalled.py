"""A disk without room, and a stranger's transaction: writes or events wait, nothing is lost."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.support.deployment import deployment, trial, waiting
from tests.support.deployment.deployment import Deployment
from tests.support.deployment.trial import Recovery, Trial

DISK_MIB = 400
FULL_SECONDS = 8.0
STALL_SECONDS_MAX = 60.0  # the self-check speaks after 30
CHECK_SECONDS = 3.0  # between two self-checks, which read everything
CALM_RATE = 3.0  # operations a second, while only time has to pass

Report = Callable[[Recovery], None]


@pytest.fixture(scope="module")
def running() -> Iterator[Trial]:
    """One control plane with all of its files on one small disk."""
    with (
        deployment.started(durable=True, disk_mib=DISK_MIB) as started,
        trial.of(started) as made,
    ):
        yield made


@pytest.mark.rule("C21", "C24", "C40")
def test_a_stranger_s_open_transaction_only_holds_events_back(
    running: Trial, report: Report
) -> None:
    services = running.deployment
    with running.load(seed=31) as load:
        with _stranger(services) as stranger:
            stranger.execute("SELECT pg_current_xact_id()")  # it may write: so events may hide
            pid = stranger.info.backend_pid
            load.rate, asked = CALM_RATE, sum(load.tally.values())
            found = waiting.until(
                lambda: _named(services, "outbox.horizon"),
                "the self-check",
                STALL_SECONDS_MAX,
                pause=CHECK_SECONDS,
            )
            held_back = services.undelivered()
            load.rate = trial.RATE
            stranger.rollback()
        since = time.monotonic()
        told = waiting.how_long(
            lambda: not set(held_back) & set(services.undelivered()), "events to be delivered"
        )
        recovery = running.recovered("stranger's open transaction", since, delivered=told)
    running.prove()
    report(recovery)
    assert held_back
    assert sum(load.tally.values()) > asked
    assert not [name for name in load.tally if name.endswith((" 503", " lost"))]
    assert str(pid) in found
    assert "nightly-report" in found
    assert "stranger" in found


@pytest.mark.rule("C1", "C40")
def test_a_full_disk_refuses_writes_and_loses_nothing(running: Trial, report: Report) -> None:
    services = running.deployment
    with running.load(seed=32) as load:
        ballast = _fill(services.home)
        waiting.until(lambda: load.tally["create 503"] >= 3, "creates to be refused")
        time.sleep(FULL_SECONDS)
        since = time.monotonic()
        ballast.unlink()
        if services.postgres.has_ended():  # its supervisor would
            services.postgres.start()
        recovery = running.recovered("disk full", since)
    running.prove()
    report(recovery)


def _stranger(services: Deployment) -> "psycopg.Connection[tuple[object, ...]]":
    """Somebody else's program in the same cluster."""
    services.sql("CREATE ROLE stranger LOGIN PASSWORD 'stranger'")
    address = make_conninfo(
        services.direct_url,
        user="stranger",
        password="stranger",
        application_name="nightly-report",
    )
    return psycopg.connect(address)


def _named(services: Deployment, check: str) -> str:
    """What the self-check says of it; empty where it says nothing."""
    return "\n".join(each for each in services.findings() if each.startswith(check))


def _fill(directory: Path) -> Path:
    """Leave no byte free on the directory's disk."""
    ballast = directory / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    return ballast
