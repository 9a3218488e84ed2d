"""The self-check and the probes against real processes (C39): exact about who lives and who not."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.deployment import deployment, waiting
from tests.support.deployment.deployment import Deployment

pytestmark = pytest.mark.rule("C39")


@pytest.fixture(scope="module")
def running() -> Iterator[Deployment]:
    """One control plane with two nodes."""
    with deployment.started(nodes=2) as made:
        yield made


def wrong(running: Deployment) -> dict[str, str]:
    """What an operator is told by the API that is not well."""
    answer = running.client(who="olga").get("/api/v1/selfcheck")
    if answer.status_code != 200:
        return {"none": answer.text}
    return {
        check["check"]: finding["message"]
        for check in answer.json()["checks"]
        for finding in check["findings"]
    }


def test_a_live_system_keeps_every_promise_and_says_who_leads(running: Deployment) -> None:
    told: dict[str, str] = {}

    def all_is_well() -> bool:
        nonlocal told
        told = wrong(running)
        return told == {}

    try:
        waiting.until(all_is_well, "all to be well")
    except AssertionError as late:
        raise AssertionError(told) from late
    assert running.findings() == []
    (plane,) = running.planes
    leases: list[dict[str, Any]] = running.client(who="olga").get("/api/v1/leases").json()["items"]
    assert {lease["note"].rpartition(" ")[2] for lease in leases if lease["held"]} >= {
        str(plane.worker.pid)
    }
    assert [lease["name"] for lease in leases if not lease["held"]] == []


def test_a_database_that_hangs_makes_no_probe_hang(running: Deployment) -> None:
    (plane,) = running.planes
    running.postgres.pause()
    try:
        for server in (plane.web, plane.gateway):
            # The client itself gives up long before a hung probe would answer.
            assert server.status("/readyz") == 503
            assert server.status("/healthz") == 200
    finally:
        running.postgres.resume()
    for server in (plane.web, plane.gateway):
        waiting.until(lambda server=server: server.status("/readyz") == 200, "it to be ready")


@pytest.mark.long  # it waits for what is missed to be missed: coordination/test_checks.py
def test_what_has_died_is_named_and_nothing_else(running: Deployment) -> None:
    (plane,) = running.planes
    waiting.until(lambda: wrong(running) == {}, "all to be well")
    try:
        plane.beat.kill()
        waiting.until(lambda: set(wrong(running)) == {"beat.ticking"}, "the beat to be missed")
        plane.worker.kill()
        waiting.until(
            lambda: set(wrong(running)) == {"beat.ticking", "workers.alive"},
            "the worker to be missed",
        )
    finally:
        plane.start()
    waiting.until(lambda: wrong(running) == {}, "all to be well again")
