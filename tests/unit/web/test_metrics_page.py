"""A database that is away does not keep the rest of the metrics back."""

from types import SimpleNamespace

import pytest
from django.db import OperationalError

from bettercompute import wiring
from bettercompute.telemetry.gauges import Gauge, Look
from bettercompute.web import metrics_page


def _looks(names: list[str]) -> list[Look]:
    def look() -> list[Gauge]:
        return []

    made = []
    for name in names:
        one = type(look)(look.__code__, {}, name)
        one.__module__ = "pools.gauges"
        made.append(one)
    return made


def test_what_is_away_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Look] = []

    def away(look: Look) -> list[Gauge]:
        asked.append(look)
        raise OperationalError("connection refused")

    monkeypatch.setattr(wiring, "gauges", lambda: _looks(["one", "two", "three"]))
    monkeypatch.setattr(metrics_page, "_look", away)
    # Whatever connection another test has left in this process.
    monkeypatch.setattr(metrics_page, "connection", SimpleNamespace(connection=None))
    monkeypatch.setattr(metrics_page.reconnecting, "drop_if_broken", lambda: None)
    metrics_page.ROWS.forget()

    text = metrics_page.text().decode()

    metrics_page.ROWS.forget()
    assert len(asked) == 1
    for name in ("one", "two", "three"):
        assert f'better_compute_scrape_ok{{part="pools.{name}"}} 0.0' in text
    assert "better_compute_build_info" in text
