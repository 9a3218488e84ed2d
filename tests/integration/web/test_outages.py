"""A database that is away, or not to be written to, is a 503 that says when to try again (A3)."""

import time
from pathlib import Path

import pytest
from django.contrib.sessions.middleware import SessionMiddleware
from django.db import (
    Error,
    InternalError,
    OperationalError,
    ProgrammingError,
    connection,
    transaction,
)
from django.test import Client

from bettercompute import outages
from bettercompute.errors import Unavailable
from bettercompute.web import problems
from tests.support import cast, proxy


@pytest.mark.django_db
@pytest.mark.rule("A3", "C40")
def test_a_standby_that_takes_no_writes_is_an_outage() -> None:
    with pytest.raises(Error) as raised:
        _write_to_a_standby()
    assert outages.is_outage(raised.value)
    assert isinstance(problems.translate(raised.value), Unavailable)


@pytest.mark.django_db(transaction=True)
@pytest.mark.rule("A3", "C24", "C40")
def test_a_session_that_the_server_ended_is_an_outage() -> None:
    with pytest.raises(Error) as raised:
        _dawdle()
    assert outages.is_outage(raised.value)


@pytest.mark.django_db(transaction=True)
@pytest.mark.rule("A3", "C24", "C40")
def test_an_answer_that_is_none_is_an_outage(tmp_path: Path) -> None:
    with proxy.proxied(connection.connection.info.dsn, tmp_path) as between:
        through = connection.copy()
        through.settings_dict |= {"HOST": str(tmp_path), "PORT": str(proxy.PORT)}
        through.ensure_connection()
        through.set_autocommit(False)
        between.garble()
        with pytest.raises(Error) as raised:
            through.cursor().execute("SELECT 1")
        through.close()
    assert type(raised.value) is InternalError
    assert outages.is_outage(raised.value)
    assert isinstance(problems.translate(raised.value), Unavailable)


@pytest.mark.django_db
@pytest.mark.rule("A3")
def test_a_mistake_of_ours_is_none() -> None:
    with pytest.raises(ProgrammingError) as raised, transaction.atomic():
        connection.cursor().execute("SELECT FROM no_such_table")
    assert not outages.is_outage(raised.value)
    with pytest.raises(ProgrammingError) as raised, transaction.atomic():
        connection.cursor().execute("SELECT %s, %s", ["too few"])  # which the driver notices
    assert not outages.is_outage(raised.value)
    assert not outages.is_outage(None)


@pytest.mark.django_db
@pytest.mark.rule("A3", "C40")
def test_an_outage_that_a_middleware_meets_is_a_503(monkeypatch: pytest.MonkeyPatch) -> None:
    def process_response(*_: object) -> None:
        raise OperationalError("the database went away while the session was saved")

    monkeypatch.setattr(SessionMiddleware, "process_response", process_response)
    client = Client(raise_request_exception=False)
    page = client.get("/login")
    assert page.status_code == 503
    assert page["Retry-After"]
    answer = client.get("/api/v1/nothing")
    cast.problem(answer, 503, "UNAVAILABLE")
    assert answer["Retry-After"]


def _write_to_a_standby() -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")
        cursor.execute("DELETE FROM heartbeats")


def _dawdle() -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL idle_in_transaction_session_timeout = '20ms'")
        time.sleep(0.2)
        cursor.execute("SELECT 1")
