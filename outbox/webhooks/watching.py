"""An attempt as it is seen from outside: in its event's trace, and counted."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from bettercompute.telemetry import metrics, tracing
from outbox.webhooks.sending import Attempt, Request

DELIVERED = "delivered"


async def send(
    request: Request, origin: str | None, *, by: Callable[[Request], Awaitable[Attempt]]
) -> Attempt:
    """Send it with the trace of the work that the event came from, or of the work at hand."""
    parent = tracing.from_origin(origin) or tracing.current()
    with tracing.entered("deliver webhook", kind=tracing.Kind.CLIENT, parent=parent) as span:
        told = {tracing.HEADER: tracing.traceparent() or ""}
        attempt = await by(replace(request, headers={**request.headers, **told}))
        outcome = DELIVERED if attempt.failure is None else attempt.failure.value
        span.set("better_compute.event_id", request.message_id)
        span.set("better_compute.outcome", outcome)
        if attempt.status is not None:
            span.set("http.response.status_code", attempt.status)
    metrics.WEBHOOK_ATTEMPTS.labels(outcome).inc()
    metrics.WEBHOOK_SECONDS.labels(outcome).observe(attempt.latency_ms / 1_000)
    return attempt
