"""A gateway as a process of its own, with what may happen to it: killed, stopped, cut off."""

import asyncio
import contextlib
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection, transaction
from psycopg.conninfo import make_conninfo

from bettercompute import clock as clock_module
from bettercompute.agent import session
from bettercompute.simulator import fleet as fleet_module
from bettercompute.simulator.fleet import Fleet, Member
from nodes import assignments, enrollment
from nodes.assignments import PlannedAssignment
from nodes.models import Assignment, NodeSession
from nodes.protocol.signing import NodeKey
from tests.support import agents, proxy, supply

pytestmark = pytest.mark.django_db(transaction=True)

ROOT = Path(__file__).parents[3]
START_SECONDS = 40.0


def database_url():
    """The test's own database, as another process reaches it."""
    settings = connection.settings_dict
    wanted = {
        "dbname": connection.settings_dict["NAME"],
        "user": settings["USER"],
        "password": settings["PASSWORD"],
        "host": settings["HOST"],
        "port": settings["PORT"],
    }
    options = {key: settings["OPTIONS"][key] for key in settings["OPTIONS"] if key == "host"}
    return make_conninfo("", **{key: each for key, each in {**wanted, **options}.items() if each})


class GatewayProcess:
    """``gunicorn … nodes.gateway.app:application`` on a port that stays the same."""

    def __init__(self, database: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._database = database
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        """Start, and wait until it is ready."""
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "gunicorn", "-c", "python:bettercompute.gunicorn_conf"),
                *("--workers", "1", "--bind", f"127.0.0.1:{self.port}"),
                *("--graceful-timeout", "60", "nodes.gateway.app:application"),
            ],
            cwd=ROOT,
            env={
                **os.environ,
                "DJANGO_SETTINGS_MODULE": "tests.settings",
                "DATABASE_URL": self._database,
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + START_SECONDS
        while self.status("/readyz") != 200:
            assert self._process.poll() is None, "the gateway ended while it started"
            assert time.monotonic() < deadline, "the gateway did not get ready"
            time.sleep(0.1)

    def status(self, path):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(self.url + path, timeout=5) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def kill(self):
        """SIGKILL to the whole group: master and worker."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(timeout=10)

    def terminate(self):
        """SIGTERM, as an init system says it; it may not take as long as a long poll."""
        self._process.terminate()
        assert self._process.wait(timeout=session.LONG_POLL_SECONDS - 5) == 0

    def close(self):
        if self._process is not None and self._process.poll() is None:
            self.kill()


@contextlib.contextmanager
def gateway_process(database):
    process = GatewayProcess(database)
    try:
        process.start()
        yield process
    finally:
        process.close()


def member(node):
    return Member(
        node_id=node.pk,
        key=NodeKey.generate(),
        inventory=supply.host(node.name),
        enrolment_token=enrollment.create(node_id=node.pk).token,
    )


def want(node, name, *, device=0):
    with transaction.atomic():
        assignments.plan(
            [
                PlannedAssignment(
                    allocation_id=name,
                    owner_key="rsv_1",
                    node_id=node.pk,
                    device_ids=[supply.devices(node)[device]],
                    until=clock_module.now() + timedelta(hours=1),
                )
            ]
        )
        assignments.want([name])


def is_bound(name):
    return lambda: Assignment.objects.get(pk=name).reported == "bound"


def play(node, url, scenario, **how):
    """Run a scenario beside the agent of one node."""
    fleet = Fleet([member(node)], [url], **how)

    async def beside():
        task = asyncio.create_task(fleet.run())
        try:
            await agents.until(NodeSession.objects.exists)
            async with asyncio.timeout(60):
                return await scenario()
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    return asyncio.run(beside())


@pytest.mark.rule("C1")
@pytest.mark.rule("C40")
def test_a_killed_gateway_comes_back_and_the_agents_session_goes_on():
    node = supply.node()
    with gateway_process(database_url()) as gateway:

        async def scenario():
            await asyncio.to_thread(gateway.kill)
            await agents.sync(want, node, "alloc_1")
            await asyncio.to_thread(gateway.start)
            await agents.until(is_bound("alloc_1"), seconds=30)

        play(node, gateway.url, scenario)
    assert NodeSession.objects.get().epoch == 1  # its memory was rebuilt from the row


def test_a_gateway_that_is_told_to_stop_does_not_wait_for_its_long_polls():
    node = supply.node()
    with gateway_process(database_url()) as gateway:

        async def scenario():
            await asyncio.sleep(0.5)  # a long poll is open by now
            await asyncio.to_thread(gateway.terminate)

        # The server itself would wait for the long poll; an idle connection ends at its beat.
        play(node, gateway.url, scenario)


@pytest.mark.rule("N2")
@pytest.mark.rule("C40")
def test_a_gateway_that_is_cut_off_from_its_database_keeps_sessions_and_loses_no_report():
    node = supply.node()
    with (
        tempfile.TemporaryDirectory(prefix="bc-") as directory,
        proxy.proxied(database_url(), Path(directory)) as database,
        gateway_process(database.url) as gateway,
    ):

        async def scenario():
            await agents.sync(want, node, "alloc_1")
            await agents.until(is_bound("alloc_1"))
            await asyncio.to_thread(database.cut)
            await agents.sync(want, node, "alloc_2", device=1)
            await asyncio.sleep(6)  # over one heartbeat
            during = [
                await asyncio.to_thread(gateway.status, path) for path in ("/healthz", "/readyz")
            ]
            await asyncio.to_thread(database.restore)
            await agents.until(is_bound("alloc_2"), seconds=30)
            return during

        assert play(node, gateway.url, scenario) == [200, 503]
    assert NodeSession.objects.get().epoch == 1


@pytest.mark.rule("N8")
def test_an_agent_goes_on_over_the_connections_that_it_has():
    node = supply.node()
    networks = []

    def network():
        networks.append(fleet_module.network(ssl.create_default_context()))
        return networks[-1]

    with gateway_process(database_url()) as gateway:

        async def scenario():
            await asyncio.sleep(6)  # over one heartbeat
            return [each.info() for each in networks[0]._pool.connections]

        connections = play(node, gateway.url, scenario, transport=network)
    assert len(connections) == 2  # one for the long poll, one for all else
    counts = [int(each.rpartition(" ")[2]) for each in connections]
    assert sum(counts) >= 6, connections  # enrol, challenge, hello, two polls, report, beat
