"""What one sees of a gateway's calls: ids, counts, and its metrics."""

import logging

import httpx2
import pytest
from django.test import override_settings

from bettercompute.telemetry import metrics
from nodes.protocol.messages import PREFIX
from tests.support import agents, supply
from tests.support.agents import Bench

pytestmark = pytest.mark.django_db(transaction=True)

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def _get(bench: Bench, path: str, **headers: str) -> "agents.Awaitable[httpx2.Response]":
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return bench.client.get(agents.URL + path, headers=named)


def test_a_call_has_the_agents_id_in_the_log_and_in_the_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(bench: Bench) -> httpx2.Response:
        traced = f"00-{TRACE}-00f067aa0ba902b7-01"
        return await _get(bench, f"{PREFIX}/hello", x_request_id="mine-0001", traceparent=traced)

    with caplog.at_level(logging.INFO, logger="bettercompute.access"):
        answer = agents.run(scenario)
    assert answer.status_code == 405
    assert answer.headers["X-Request-Id"] == "mine-0001"
    (line,) = [record.msg for record in caplog.records if "served" in str(record.msg)]
    assert (line["request_id"], line["trace_id"]) == ("mine-0001", TRACE)
    assert (line["server"], line["route"], line["status"]) == ("gateway", f"{PREFIX}/hello", 405)


def test_an_agents_calls_carry_ids_and_what_repeats_is_quiet(
    caplog: pytest.LogCaptureFixture,
) -> None:
    node = supply.node()

    async def scenario(bench: Bench) -> None:
        token = await bench.session(node.pk)
        await bench.call("POST", "/heartbeat", {}, token=token)

    with caplog.at_level(logging.INFO, logger="bettercompute.access"):
        agents.run(scenario)
    said = [record.msg["route"] for record in caplog.records if "served" in str(record.msg)]
    assert f"{PREFIX}/hello" in said
    assert f"{PREFIX}/heartbeat" not in said
    labels = {"server": "gateway", "method": "POST", "route": f"{PREFIX}/heartbeat"}
    name = "better_compute_http_requests_total"
    assert metrics.REGISTRY.get_sample_value(name, {**labels, "status": "200"})


def test_its_metrics_are_for_those_who_run_the_platform() -> None:
    async def scenario(bench: Bench) -> list[httpx2.Response]:
        return [
            await _get(bench, "/metrics"),
            await _get(bench, "/metrics", authorization="Bearer something"),
            await _get(bench, "/metrics", authorization="Bearer the-scrapers"),
        ]

    with override_settings(METRICS_TOKEN="the-scrapers"):
        nobody, somebody, scraper = agents.run(scenario)
    assert (nobody.status_code, somebody.status_code, scraper.status_code) == (401, 401, 200)
    assert 'server="gateway"' in scraper.text
    assert "better_compute_reservations{" not in scraper.text  # rows are the web processes' to tell
