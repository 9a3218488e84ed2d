"""Every request is counted by its route and has one line in the log, from whoever it came."""

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client, override_settings

from bettercompute import redaction
from bettercompute.telemetry import metrics
from bettercompute.web import logs
from tests.support import cast

pytestmark = pytest.mark.django_db

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Iterator[Lines]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    with override_settings(LOG_FORMAT="json"):
        logs.configure()
        yield lambda: [
            json.loads(line)
            for line in capsys.readouterr().err.splitlines()
            if line.startswith("{")  # what a library prints is no line of log
        ]
    root.handlers[:], root.level = handlers, level


def _count(method: str, route: str, status: int) -> float:
    labels = {"server": "web", "method": method, "route": route, "status": str(status)}
    return metrics.REGISTRY.get_sample_value("better_compute_http_requests_total", labels) or 0.0


def test_a_request_is_counted_by_its_route_and_never_by_its_path(client: Client) -> None:
    route = "/api/v1/pools/{pool_id}"
    before = _count("GET", route, 401)
    client.get("/api/v1/pools/pool_one")
    client.get("/api/v1/pools/pool_two")
    assert _count("GET", route, 401) == before + 2
    client.get("/no/such/page-of-mine")
    client.generic("BREW", "/api/v1/pools")
    exposed = {
        value
        for family in metrics.REGISTRY.collect()
        for sample in family.samples
        for value in sample.labels.values()
    }
    assert not [value for value in exposed if "pool_one" in value or "of-mine" in value]
    assert "BREW" not in exposed
    assert _count("GET", "(unmatched)", 404) > 0


def test_one_line_says_who_asked_for_what_and_what_it_took(lines: Lines) -> None:
    answer = cast.api("alice").get(
        "/whoami?of=me", traceparent=f"00-{TRACE}-00f067aa0ba902b7-01", x_request_id="mine-0001"
    )
    (line,) = [line for line in lines() if line["event"] == "served"]
    assert line["path"] == "/api/v1/whoami"  # without its query
    assert (line["method"], line["route"]) == ("GET", "/api/v1/whoami")
    assert (line["status"], line["bytes"]) == (answer.status_code, len(answer.content))
    assert line["duration_ms"] >= 0
    assert (line["request_id"], line["trace_id"]) == ("mine-0001", TRACE)
    assert line["account_id"].startswith("usr_")
    assert line["logger"] == "bettercompute.access"


def test_no_address_of_a_calendar_feed_is_in_the_log(lines: Lines, client: Client) -> None:
    address = "bcf_01k9zzzzzzzzzzzzzzzzzzzzzz_" + "a2" * 26
    client.get(f"/feeds/{address}.ics")
    (line,) = [line for line in lines() if line["event"] == "served"]
    assert line["path"] == f"/feeds/{redaction.REDACTED}.ics"
    assert line["route"] == "/feeds/{address}.ics"


@pytest.mark.parametrize(("levels", "shown"), [({}, 1), ({"bettercompute.access": "WARNING"}, 0)])
def test_a_logger_has_the_level_that_it_was_given(
    levels: dict[str, str], shown: int, capsys: pytest.CaptureFixture[str], client: Client
) -> None:
    root, access = logging.getLogger(), logging.getLogger("bettercompute.access")
    handlers, level = root.handlers[:], root.level
    with override_settings(LOG_FORMAT="json", LOG_LEVELS=levels):
        logs.configure()
        client.get("/healthz")
    root.handlers[:], root.level = handlers, level
    access.setLevel(logging.NOTSET)
    assert capsys.readouterr().err.count('"served"') == shown
