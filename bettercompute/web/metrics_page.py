"""``/metrics`` for Prometheus: what the processes of this host counted, and what rows say now.

For those who run the platform: whoever has ``BETTERCOMPUTE_METRICS_TOKEN``, or an operator's API
token. The first needs no database, so that an outage of it can be seen here.

Rows are read at most every few seconds, whoever asks; each look in a short transaction of its own,
so that one that fails hides no other.
"""

import hmac
import importlib
import importlib.metadata
import logging
import platform
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import Error, connection, transaction
from django.http import HttpRequest, HttpResponse
from prometheus_client import CollectorRegistry, exposition, multiprocess
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bettercompute import errors
from bettercompute.coordination import checks, reconnecting
from bettercompute.iam import tokens
from bettercompute.telemetry import files, metrics
from bettercompute.telemetry.gauges import Gauge, Look
from bettercompute.web import methods, problems

log = logging.getLogger(__name__)

CONTENT_TYPE = exposition.CONTENT_TYPE_PLAIN_0_0_4
FRESH_SECONDS = 5.0
LOOK_SECONDS_MAX = 2.0
_PREFIX = "better_compute_"


def authorize(header: str | None) -> None:
    """Let in who may see the platform's figures.

    Raises:
        errors.Unauthenticated, errors.AccessDenied: everybody else.
    """
    scheme, _, presented = (header or "").partition(" ")
    if scheme.lower() != "bearer" or not presented:
        raise errors.Unauthenticated("Send the token of the metrics, or an operator's API token.")
    known = settings.METRICS_TOKEN
    if known and hmac.compare_digest(presented.strip().encode(), known.encode()):
        return
    if not tokens.find(presented.strip()).identity.is_operator:
        raise errors.AccessDenied("Only an operator of the platform may do this.", needs="operator")


def text(*, rows: bool = True) -> bytes:
    """All metrics in Prometheus's text format; without ``rows``, those of the processes only."""
    registry = CollectorRegistry()
    where = files.directory()
    if where is None:
        return _build() + exposition.generate_latest(metrics.REGISTRY) + _rows(rows)
    files.fold(where)
    with files.locked(where):
        collect: Any = multiprocess.MultiProcessCollector  # untyped
        collect(registry, path=str(where))
        return _build() + exposition.generate_latest(registry) + _rows(rows)


class Rows(Collector):
    """Gauges that are read from rows, and kept for some seconds."""

    def __init__(self) -> None:
        self._reading = threading.Lock()
        self._found: list[Metric] = []
        self._read_at = float("-inf")

    def collect(self) -> Iterable[Metric]:
        """What is known, read anew where it is old; who comes meanwhile waits for it."""
        with self._reading:
            if time.monotonic() - self._read_at > FRESH_SECONDS:
                self._found = list(_read())
                self._read_at = time.monotonic()
            return self._found

    def forget(self) -> None:
        """Read anew at the next scrape."""
        self._read_at = float("-inf")


ROWS = Rows()


@methods.reading
def serve(request: HttpRequest) -> HttpResponse:
    """The page, where Django runs alone; behind ``asgi.py`` it is answered before Django."""
    found = answer(request.META.get("HTTP_AUTHORIZATION"), str(getattr(request, "request_id", "")))
    answered = HttpResponse(found.body, status=found.status)
    for name, value in found.headers.items():
        answered[name] = value
    return answered


@dataclass(frozen=True, slots=True)
class Page:
    """An answer, for whichever server sends it."""

    status: int
    headers: dict[str, str]
    body: bytes


def answer(authorization: str | None, request_id: str, *, rows: bool = True) -> Page:
    """The metrics, or why not."""
    try:
        authorize(authorization)
        told = text(rows=rows)
    except Exception as raised:  # the edge of a request: there always is an answer
        error = problems.translate(raised)
        if isinstance(error, errors.Internal):
            log.exception("%s the metrics could not be told", request_id)
        headers = {"Content-Type": problems.MEDIA_TYPE, **problems.headers(error)}
        return Page(error.status, headers, problems.body(error, request_id))
    return Page(200, {"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"}, told)


def _build() -> bytes:
    info = GaugeMetricFamily(
        f"{_PREFIX}build_info", "What runs here.", labels=["version", "python"]
    )
    version = importlib.metadata.version("bettercompute")
    info.add_metric([version, platform.python_version()], 1)
    return _print([info])


def _rows(wanted: bool) -> bytes:
    return _print(ROWS.collect()) if wanted else b""


def _print(found: Iterable[Metric]) -> bytes:
    class Found(Collector):
        def collect(self) -> Iterable[Metric]:
            return found

    registry = CollectorRegistry()
    registry.register(Found())
    return exposition.generate_latest(registry)


def _read() -> Iterator[Metric]:
    wiring: Any = importlib.import_module(settings.WIRING)
    ok = Gauge("scrape_ok", "Whether this part of the rows could be read.", ("part",))
    began = time.monotonic()
    away = False
    for look in wiring.gauges():
        part = f"{look.__module__.removesuffix('.gauges')}.{look.__name__}"
        gauges = None
        if not away:  # each of them would wait for it as long as the first
            try:
                gauges = _look(look)
            except Error as error:
                log.warning("%s cannot be read for the metrics: %s", part, error)
                reconnecting.drop_if_broken()
                away = connection.connection is None
        ok.add(gauges is not None, part)
        yield from map(_family, gauges or ())
    seconds = Gauge("scrape_rows_seconds", "How long reading the rows took.")
    seconds.add(time.monotonic() - began)
    yield _family(ok)
    yield _family(seconds)


def _look(look: Look) -> list[Gauge]:
    """What one look finds, in a transaction with a limit."""
    with transaction.atomic():
        checks.bound(seconds=LOOK_SECONDS_MAX)
        return list(look())


def _family(gauge: Gauge) -> Metric:
    family = GaugeMetricFamily(_PREFIX + gauge.name, gauge.meaning, labels=gauge.labels)
    for labels, value in gauge.samples.items():
        family.add_metric(labels, value)
    return family
