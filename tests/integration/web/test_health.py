"""/healthz and /readyz."""

import asyncio
import threading
from collections.abc import Iterator

import pytest
from django.db import OperationalError, connection, connections
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from bettercompute.web import health, lifetime

pytestmark = [pytest.mark.django_db, pytest.mark.rule("C39")]


@pytest.fixture(autouse=True)
def not_yet_known_to_be_migrated() -> Iterator[None]:
    health._migrated.clear()
    yield
    health._migrated.clear()


def test_the_process_lives_without_a_database(
    client: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(0):
        assert client.get("/healthz").json() == {"status": "ok"}


def test_ready_means_reachable_and_migrated(
    client: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    assert client.get("/readyz").json() == {"status": "ready"}
    health.readiness()
    with django_assert_num_queries(1):
        assert health.readiness().ready


def test_pending_migrations_are_not_ready() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM django_migrations WHERE app = 'reservations' AND id ="
            " (SELECT max(id) FROM django_migrations WHERE app = 'reservations')"
        )
    found = health.readiness()
    assert (found.status, found.reason) == (503, "migrations are pending")


def test_a_database_that_takes_no_writes_is_not_ready() -> None:
    """A standby that was not promoted, or one that an operator protects."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL transaction_read_only = on")
    found = health.readiness()
    assert (found.status, found.reason) == (503, "the database is read-only")


def test_a_process_that_was_asked_to_stop_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifetime, "is_stopping", lambda: True)
    found = health.readiness()
    assert (found.status, found.reason) == (503, "this process is stopping")


def test_a_database_that_is_away_is_not_ready(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: object) -> None:
        raise OperationalError("connection refused to a secret host")

    monkeypatch.setattr(type(connections["default"]), "cursor", refuse)
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json() == {"status": "unavailable", "reason": "the database cannot be reached"}
    assert client.get("/healthz").status_code == 200


@pytest.fixture
def hangs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[threading.Event]]:
    """A database that takes a connection and says nothing more; who asks is kept here."""
    asked: list[threading.Event] = []

    def hang() -> health.Readiness:
        asked.append(threading.Event())
        asked[-1].wait()
        return health.Readiness(ready=True)

    monkeypatch.setattr(health, "PROBE", health.Probe())
    monkeypatch.setattr(health, "readiness", hang)
    monkeypatch.setattr(health, "READY_SECONDS_MAX", 0.1)
    yield asked
    for event in asked:
        event.set()


def test_a_database_that_hangs_is_said_in_time_and_asked_once(
    client: Client, hangs: list[threading.Event]
) -> None:
    for _ in range(3):
        answer = client.get("/readyz")
        assert answer.status_code == 503
        assert answer.json()["reason"] == "the database does not answer in time"
    assert asyncio.run(health.ready_soon()) == health.HANGS
    assert len(hangs) == 1
    hangs[0].set()
    assert health.PROBE.ask().result(timeout=10).ready


def test_a_probe_that_gives_up_takes_the_answer_from_nobody(hangs: list[threading.Event]) -> None:
    async def two() -> tuple[health.Readiness, health.Readiness]:
        impatient = await health.ready_soon()
        patient = asyncio.create_task(health.ready_soon())
        await asyncio.sleep(0)
        hangs[0].set()
        return impatient, await patient

    impatient, patient = asyncio.run(two())
    assert not impatient.ready
    assert patient.ready


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_a_probe_only_asks(client, path):
    answer = client.post(path)
    assert answer.status_code == 405
    assert answer["Allow"] == "GET, HEAD"
