"""What processes count and time, for Prometheus. Rows are not counted here but read at a scrape.

Labels are words of ours: routes, states, kinds. Never an id, a path as it was asked for, a tenant,
or anything else that a client chooses (docs/decisions/0019).
"""

from contextlib import AbstractContextManager
from functools import partial

from django.db import transaction

from bettercompute.telemetry import files

files.prepare()  # prometheus-client looks for the directory when it is imported

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram  # noqa: E402

files.without_holes()

PATH = "/metrics"
REGISTRY = CollectorRegistry()

_SHORT = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_LONG = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)

REQUESTS = Counter(
    "better_compute_http_requests",
    "HTTP requests answered. Status 499: the client went away first.",
    ["server", "method", "route", "status"],
    registry=REGISTRY,
)
REQUEST_SECONDS = Histogram(
    "better_compute_http_request_duration_seconds",
    "From a request's arrival to its end, with the wait for a thread, without one it asked for.",
    ["server", "method", "route"],
    buckets=_SHORT,
    registry=REGISTRY,
)
PLACEMENTS = Counter(
    "better_compute_placements",
    "Attempts to place a reservation: placed, no-fit, or lost to rivals.",
    ["placer", "outcome"],
    registry=REGISTRY,
)
PLACEMENT_SECONDS = Histogram(
    "better_compute_placement_duration_seconds",
    "Planning and booking of one reservation, or of one batch of the queued placer.",
    ["phase"],
    buckets=_SHORT,
    registry=REGISTRY,
)
RESERVATION_MOVES = Counter(
    "better_compute_reservation_moves",
    "Reservations that came into a state.",
    ["state"],
    registry=REGISTRY,
)
CONFIRMATIONS = Counter(
    "better_compute_confirmations",
    "What agents asked their people for, by what became of it.",
    ["state"],
    registry=REGISTRY,
)
DECISIONS = Counter(
    "better_compute_policy_decisions",
    "Decisions of the policies, by their effect.",
    ["effect"],
    registry=REGISTRY,
)
WORK_RUNS = Counter(
    "better_compute_work_runs",
    "Runs of the work queue's items: done, again (due at a later time), or failed.",
    ["kind", "outcome"],
    registry=REGISTRY,
)
WORK_SECONDS = Histogram(
    "better_compute_work_duration_seconds",
    "How long one run of an item took.",
    ["kind"],
    buckets=_SHORT,
    registry=REGISTRY,
)
WORK_DELAY_SECONDS = Histogram(
    "better_compute_work_delay_seconds",
    "How long after its time an item's run began.",
    ["kind"],
    buckets=_LONG,
    registry=REGISTRY,
)
JOB_RUNS = Counter(
    "better_compute_job_runs",
    "Runs of periodic jobs: done, lost (another worker goes on with it), or failed.",
    ["job", "outcome"],
    registry=REGISTRY,
)
JOB_SECONDS = Histogram(
    "better_compute_job_duration_seconds",
    "How long one run of a periodic job took.",
    ["job"],
    buckets=_SHORT,
    registry=REGISTRY,
)
WEBHOOK_ATTEMPTS = Counter(
    "better_compute_webhook_attempts",
    "Attempts to deliver to webhooks: delivered, or why not.",
    ["outcome"],
    registry=REGISTRY,
)
WEBHOOK_SECONDS = Histogram(
    "better_compute_webhook_duration_seconds",
    "How long an attempt to deliver took.",
    ["outcome"],
    buckets=_SHORT,
    registry=REGISTRY,
)
STREAMS = Gauge(
    "better_compute_streams",
    "Streams of events that are open.",
    ["server"],
    multiprocess_mode="livesum",
    registry=REGISTRY,
)
SESSIONS = Gauge(
    "better_compute_gateway_sessions",
    "Sessions of node agents in the gateways' memory.",
    ["server"],
    multiprocess_mode="livesum",
    registry=REGISTRY,
)


def placing(phase: str) -> AbstractContextManager[object]:
    """Time one phase of a placement, however it ends."""
    return PLACEMENT_SECONDS.labels(phase).time()


def count_on_commit(counter: Counter, **labels: str) -> None:
    """Count what this transaction does, once it has committed."""
    transaction.on_commit(partial(_count, counter, labels), robust=True)


def _count(counter: Counter, labels: dict[str, str]) -> None:
    counter.labels(**labels).inc()
