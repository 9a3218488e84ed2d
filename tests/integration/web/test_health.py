"""/healthz and /readyz."""

from collections.abc import Iterator

import pytest
from django.db import OperationalError, connection
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from bettercompute.web import health

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
    with django_assert_num_queries(1):
        assert client.get("/readyz").status_code == 200


def test_pending_migrations_are_not_ready(client: Client) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM django_migrations WHERE app = 'reservations' AND id ="
            " (SELECT max(id) FROM django_migrations WHERE app = 'reservations')"
        )
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["reason"] == "migrations are pending"


def test_a_database_that_is_away_is_not_ready(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise OperationalError("connection refused to a secret host")

    monkeypatch.setattr(connection, "cursor", refuse)
    monkeypatch.setattr(connection, "close", lambda: None)
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json() == {"status": "unavailable", "reason": "the database cannot be reached"}
    assert client.get("/healthz").status_code == 200
