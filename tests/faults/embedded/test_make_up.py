"""`make up` as people run it: real processes, killed and started again.

One deployment serves the whole file. A test that stops or kills it starts it again, and each start
proves the same promise: what `demo.json` names is ready, and a reservation made then is bound.
"""

import contextlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import psutil
import psycopg
import pytest
import redis
from psycopg import sql

from bettercompute.embedded import directories, processes
from tests.support import otlp
from tests.support.made_up import (
    ACTIVE_SECONDS,
    EMBEDDED,
    RECOVERY_SECONDS,
    STOP_SECONDS,
    UP,
    Deployment,
    deployment_at,
)
from tests.support.otlp import ReceivedSpan, Receiver
from tests.support.receivers import receiver

pytestmark = pytest.mark.enable_socket

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="better-compute-up-")).resolve()
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def traces() -> Iterator[Receiver]:
    with otlp.receiving() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def shared(place: Path, traces: Receiver) -> Iterator[Deployment]:
    told = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": traces.url,
        "OTEL_BSP_SCHEDULE_DELAY": "200",
        "BETTERCOMPUTE_WEBHOOK_NETWORKS": "127.0.0.1",
        "BETTERCOMPUTE_WEBHOOK_PLAIN_HTTP": "on",
    }
    with deployment_at(place, **told) as deployment:
        yield deployment


@pytest.fixture
def deployment(shared: Deployment) -> Deployment:
    """The shared deployment, running."""
    if not shared.runs:
        shared.start()
    return shared


def alive_after_a_while(those: list[psutil.Process]) -> list[psutil.Process]:
    _, alive = psutil.wait_procs(those, timeout=STOP_SECONDS)
    return [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


def names(those: list[psutil.Process]) -> set[str]:
    """Of those that still run: a connection's process ends with it."""
    found = set()
    for process in those:
        with contextlib.suppress(psutil.NoSuchProcess):
            found.add(process.name())
    return found


def listens(url: str) -> bool:
    parts = urlsplit(url)
    with socket.socket() as client:
        return client.connect_ex((str(parts.hostname), int(parts.port or 0))) == 0


@pytest.mark.rule("U10")
def test_demo_json_names_everything_a_client_needs(deployment: Deployment) -> None:
    demo = deployment.demo

    assert set(demo) == {"url", "gateway", "tenant", "tenants", "pools", "tokens", "logins"}
    assert listens(demo["url"])
    assert listens(demo["gateway"])
    people = {"alice", "bob", "mallory", "olga"}
    assert set(demo["tenants"]) == set(demo["tokens"]) == set(demo["logins"]) == people
    assert demo["tenants"]["alice"] == demo["tenants"]["bob"] == demo["tenant"]
    assert {"main", "mig"} <= set(demo["pools"])
    for name, login in demo["logins"].items():
        assert login.keys() == {"username", "password"}
        assert login["username"] == name
        assert f"{name:<10} {login['password']}" in deployment.said
    assert (deployment.home / "demo.json").stat().st_mode & 0o777 == 0o600


def _is_whole(spans: list[ReceivedSpan]) -> bool:
    """Two runs of the worker, two webhooks, every span's parent: one tree below the request."""
    known = {span.span_id for span in spans}
    roots = [span for span in spans if span.parent_id not in known]
    runs = [span for span in spans if span.name == "reconcile reservation"]
    sent = [span for span in spans if span.name == "deliver webhook"]
    return min(len(runs), len(sent)) >= 2 and [root.name for root in roots] == [
        "POST /api/v1/reservations"
    ]


def test_one_trace_leads_from_the_request_through_every_process(
    deployment: Deployment, traces: Receiver
) -> None:
    trace_id = uuid.uuid4().hex
    parent = f"00-{trace_id}-00f067aa0ba902b7-01"

    with receiver() as door:
        wanted = {"tenantId": deployment.demo["tenant"], "url": door.url}
        deployment.call("/webhooks", {**wanted, "eventTypes": ["reservation.*"]})
        made = deployment.reserve(headers={"traceparent": parent})
        deployment.wait_until_active(made, seconds=RECOVERY_SECONDS)
        spans = traces.wait_for(_is_whole, trace_id=trace_id, seconds=ACTIVE_SECONDS)
    assert _is_whole(spans)
    named = {message.event["subject"]: message.headers["traceparent"] for message in door.messages}
    assert named[f"reservation/{made}"][3:35] == trace_id
    services = {span.service for span in spans}
    assert {"better-compute-web", "better-compute-worker"} <= services
    (asked,) = [span for span in spans if span.name == "POST /api/v1/reservations"]
    assert asked.parent_id == "00f067aa0ba902b7"
    assert asked.attributes["http.response.status_code"] == 201
    names = {span.name for span in spans}
    assert {"decide", "plan", "book", "INSERT", "reconcile reservation"} <= names
    with psycopg.connect(database_of(deployment)) as connection:
        rows = connection.execute(
            "SELECT type, origin FROM outbox WHERE subject = %s", [f"reservation/{made}"]
        ).fetchall()
    assert "reservation.active" in {kind for kind, _ in rows}
    assert {(kind, origin[3:35]) for kind, origin in rows} == {(kind, trace_id) for kind, _ in rows}
    deployment.release(made)


def test_no_secret_and_no_value_of_a_statement_leaves_in_a_span(
    deployment: Deployment, traces: Receiver
) -> None:
    made = deployment.reserve()
    deployment.wait_until_active(made, seconds=RECOVERY_SECONDS)
    deployment.release(made)
    assert traces.spans()
    sent = b"".join(traces.raw)
    for name, token in deployment.demo["tokens"].items():
        assert token.encode() not in sent, name
        assert token.rpartition("_")[2].encode() not in sent, name
    texts = [str(span.attributes.get("db.query.text", "")) for span in traces.spans()]
    assert any(texts)
    assert not [text for text in texts if made in text]


def test_every_process_is_in_one_scrape(deployment: Deployment) -> None:
    made = deployment.reserve()
    deployment.wait_until_active(made, seconds=RECOVERY_SECONDS)
    deployment.release(made)
    text = deployment.metrics()
    for server in ("web", "gateway"):
        assert f'server="{server}"' in text
    assert 'better_compute_work_runs_total{kind="reservation"' in text  # of the worker
    assert 'better_compute_placements_total{outcome="placed",placer="inline"}' in text
    assert 'better_compute_processes{role="web"} 2.0' in text
    assert made not in text
    assert deployment.demo["tenant"] not in text


def test_manage_py_beside_it_does_as_the_guide_shows(deployment: Deployment) -> None:
    guide = (ROOT / "docs" / "operations" / "embedded.md").read_text()
    shown = (
        guide.partition("## `manage.py` beside")[2].partition("```bash\n")[2].partition("```")[0]
    )
    assert shown.count("selfcheck") == 1
    asked = (
        shown.replace("$PWD/.data", shlex.quote(str(deployment.home)))
        .replace(
            "$data/run", quote(str(directories.of_services(deployment.home)[0].parent / "run"))
        )
        .replace(".venv/bin/python", shlex.quote(sys.executable))
        .replace("selfcheck", "audit_verify")  # needs the key as well, whatever is under way
    )
    done = subprocess.run(
        ["bash", "-euc", asked],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "intact" in done.stdout


def test_a_second_start_is_refused_at_once_and_harms_nothing(deployment: Deployment) -> None:
    before = deployment.demo

    second = subprocess.run(
        UP,
        env={**EMBEDDED, "BETTERCOMPUTE_DATA": str(deployment.home), "PORT": "0"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert second.returncode == 1
    assert second.stderr == ""
    assert second.stdout.count("\n") == 1
    assert f"already runs on {deployment.home} (pid {deployment.pid}" in second.stdout
    assert deployment.demo == before
    assert deployment.runs


def test_a_stop_leaves_only_data_and_a_restart_goes_on_with_it(deployment: Deployment) -> None:
    kept = deployment.reserve()
    deployment.wait_until_active(kept, seconds=RECOVERY_SECONDS)
    before, everything = deployment.demo, deployment.everything()
    assert {"postgres", "valkey-server"} <= names(everything)

    started = time.monotonic()
    assert deployment.end(signal.SIGTERM) == 0

    assert time.monotonic() - started < STOP_SECONDS
    assert deployment.said.startswith(f"Starting Better Compute on {deployment.home}")
    assert deployment.said.endswith("Stopping everything …\n")
    assert [process for process in everything if process.is_running()] == []
    assert processes.leftovers(mark=str(deployment.home), directories=[]) == []
    assert not listens(before["url"])
    assert not listens(before["gateway"])
    assert not (deployment.home / "demo.json").exists()
    assert [path for path in deployment.home.rglob("*") if path.is_socket()] == []
    assert list(deployment.temporary.iterdir()) == []

    deployment.start()
    fresh = deployment.reserve(gpus=4)  # at once: demo.json promises no less

    deployment.wait_until_active(fresh, seconds=ACTIVE_SECONDS)
    for same in ("tenant", "tenants", "pools", "tokens", "logins"):
        assert deployment.demo[same] == before[same]
    assert deployment.state(kept) == "active"
    deployment.release(fresh)
    deployment.release(kept)


@pytest.mark.long
def test_a_killed_run_needs_nothing_but_a_start(deployment: Deployment) -> None:
    kept = deployment.reserve()
    stale = deployment.demo
    everything = deployment.everything()
    deployment.end(signal.SIGKILL)
    assert (deployment.home / "demo.json").exists()  # nobody was left to remove it
    (deployment.home / "demo.json").rename(deployment.home / "stale.json")

    deployment.start()  # at once, while the dead one's children may still be stopping

    assert alive_after_a_while(everything) == []
    assert deployment.demo["tokens"] == stale["tokens"]
    deployment.wait_until_active(kept, seconds=RECOVERY_SECONDS)
    deployment.release(kept)
    (deployment.home / "stale.json").unlink()


@pytest.mark.long
def test_a_stale_demo_json_is_gone_before_anything_is_ready(
    deployment: Deployment, tmp_path: Path
) -> None:
    # Beside the running one, so that this start ends early: at the taken port, before services.
    home = tmp_path / "data"
    home.mkdir()
    (home / "demo.json").write_text("{}")
    port = str(urlsplit(deployment.demo["url"]).port)

    refused = subprocess.run(
        UP,
        env={**EMBEDDED, "BETTERCOMPUTE_DATA": str(home), "PORT": port},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert f"Port {port} is taken" in refused.stdout
    assert not (home / "demo.json").exists()


@pytest.mark.long
@pytest.mark.rule("C25")
def test_a_killed_worker_only_delays(deployment: Deployment) -> None:
    deployment.child("celery", "worker").kill()

    kept = deployment.reserve()

    assert deployment.state(kept) in {"pending", "placed", "binding"}
    deployment.wait_until_active(kept, seconds=RECOVERY_SECONDS)
    deployment.release(kept)


@pytest.mark.long
@pytest.mark.rule("C25")
def test_an_emptied_valkey_only_delays(deployment: Deployment) -> None:
    with redis.Redis.from_url(valkey_of(deployment)) as valkey:
        valkey.flushall()

        kept = deployment.reserve()
        valkey.flushall()

    deployment.wait_until_active(kept, seconds=RECOVERY_SECONDS)
    deployment.release(kept)


@pytest.mark.long
@pytest.mark.rule("C25")
def test_a_killed_valkey_only_delays(deployment: Deployment) -> None:
    deployment.child("valkey-server").kill()

    kept = deployment.reserve()

    deployment.wait_until_active(kept, seconds=RECOVERY_SECONDS)
    assert "Valkey ended (SIGKILL)" in deployment.said
    deployment.release(kept)


@pytest.mark.long
def test_given_servers_replace_the_embedded_ones(tmp_path: Path) -> None:
    if not os.environ.get("DATABASE_URL") or not os.environ.get("REDIS_URL"):
        pytest.skip("needs DATABASE_URL and REDIS_URL, as `make test` sets them")
    with (
        own_database() as database_url,
        deployment_at(
            tmp_path, DATABASE_URL=database_url, REDIS_URL=own_redis(), SIM="4"
        ) as deployment,
    ):
        deployment.start()

        kept = deployment.reserve()
        deployment.wait_until_active(kept, seconds=RECOVERY_SECONDS)

        names = {process.name() for process in deployment.everything()}
        assert not {"postgres", "valkey-server"} & names
        assert not (deployment.home / "pg").exists()
        with psycopg.connect(database_url) as connection:
            row = connection.execute("SELECT state FROM reservations WHERE id = %s", [kept])
            assert row.fetchone() == ("active",)
        deployment.end(signal.SIGTERM)


def database_of(deployment: Deployment) -> str:
    """The deployment's own PostgreSQL."""
    return deployment.child("celery", "worker").environ()["DATABASE_URL"]


def valkey_of(deployment: Deployment) -> str:
    services = directories.of_services(deployment.home)[0].parent
    return f"unix://{quote(str(services / 'run' / 'valkey.sock'))}"


def own_redis() -> str:
    """Another database of the given server than the tests use."""
    base = os.environ["REDIS_URL"].partition("?")[0]
    return f"{base}?db=9"


@contextlib.contextmanager
def own_database() -> Iterator[str]:
    """A database of its own on the given server."""
    server = os.environ["DATABASE_URL"]
    name = f"up_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            parts = urlsplit(server)
            yield parts._replace(path=f"/{name}").geturl()
        finally:
            connection.execute(
                sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
            )
