"""What every test stands on: simulated time, and nothing carried from one test to the next."""

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import pytest
from django.contrib.contenttypes.models import ContentType
from django.db import transaction
from pytest_django.plugin import DjangoDbBlocker

from bettercompute import clock as clock_module
from bettercompute import durations, failpoints
from tests.support.collecting import pytest_configure, pytest_runtestloop
from tests.support.deployment.recoveries import pytest_terminal_summary
from tests.support.emptying import quick_emptying
from tests.support.lock_order import lock_order_guard
from tests.support.parallel import (
    pytest_collection_modifyitems,
    pytest_xdist_auto_num_workers,
    pytest_xdist_make_scheduler,
    pytest_xdist_setupnodes,
)
from tests.support.session_state import session_state_guard
from tests.support.threads import pytest_runtest_setup, pytest_runtest_teardown

__all__ = [
    "lock_order_guard",  # C19: every test with a database is watched
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_runtest_setup",  # no thread goes on behind the tests that began it
    "pytest_runtest_teardown",
    "pytest_runtestloop",
    "pytest_terminal_summary",
    "pytest_xdist_auto_num_workers",
    "pytest_xdist_make_scheduler",
    "pytest_xdist_setupnodes",
    "quick_emptying",
    "session_state_guard",  # C24: and leaves nothing on its sessions
]

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)  # a Monday, weeks before any change of clocks


@dataclass(frozen=True, slots=True)
class SimulatedClock:
    """The test's hand on the one clock."""

    def now(self) -> datetime:
        """The simulated instant."""
        return clock_module.now()

    def now_ms(self) -> int:
        """The simulated instant as epoch milliseconds."""
        return clock_module.now_ms()

    def advance(self, by: str | timedelta) -> datetime:
        """Let ``by`` pass (``"15m"``) and answer the new instant."""
        delta = by if isinstance(by, timedelta) else timedelta(milliseconds=durations.parse(by))
        clock_module.advance_sim_clock(delta)
        return clock_module.now()

    def set(self, instant: datetime) -> None:
        """Jump to an instant."""
        clock_module.set_sim_clock(instant)


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> None:
    """The test database, its clock simulated."""
    with django_db_blocker.unblock():
        clock_module.use_sim_clock(START)


@pytest.fixture(autouse=True, scope="session")
def _no_name_server() -> Iterator[None]:
    """No test asks the world for a name: there is this machine, and nobody else."""
    real = socket.getaddrinfo
    here = {"", "localhost", "localhost.", socket.gethostname()}

    def answer(host: Any, *args: Any, **kwargs: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host or ""
        if name not in here:
            real(host, None, flags=socket.AI_NUMERICHOST)  # raises where it is a name
        return real(host, *args, **kwargs)

    with mock.patch("socket.getaddrinfo", answer):
        yield


DATABASE_FIXTURES = {"db", "transactional_db", "live_server", "clock", "client", "admin_client"}


@pytest.fixture(autouse=True)
def _start_of_time(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test with a database begins at START; no failpoint stays armed."""
    if request.node.get_closest_marker("django_db") or "db" in request.fixturenames:
        marker = request.node.get_closest_marker("django_db")
        transactional = bool(
            marker and (marker.kwargs.get("transaction") or (marker.args and marker.args[0]))
        )
        needs_commit = transactional or {"transactional_db", "live_server"} & set(
            request.fixturenames
        )
        assert not (needs_commit and "module_database" in request.fixturenames), "it cannot commit"
        request.getfixturevalue("transactional_db" if needs_commit else "db")
        _begin()
    yield
    failpoints.disarm()


def _begin() -> None:
    clock_module.follow_sim_clock()
    clock_module.set_sim_clock(START)
    # Kept by the process: the ids may be of rows that a test before this one rolled back.
    ContentType.objects.clear_cache()


@pytest.fixture(scope="module")
def module_database(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """For what many tests of a module start from and is dear to make: it is made once.

    A transaction around the module's tests. That of each test lies within it, so what a test did is
    undone behind it; what lies in the process, such as a row's object, is not.
    """
    around = transaction.atomic()
    around._from_testcase = True  # as Django marks its own: no block of the product
    with django_db_blocker.unblock(), around:
        _begin()
        yield
        transaction.set_rollback(True)


@pytest.fixture
def clock(db: None) -> SimulatedClock:
    """Simulated time; say ``clock.advance("15m")``."""
    return SimulatedClock()
