"""Spans for OpenTelemetry, sent over OTLP/HTTP: on where the usual environment variables say so.

``OTEL_EXPORTER_OTLP_ENDPOINT`` (or ``…_TRACES_ENDPOINT``) switches it on; the SDK reads the other
``OTEL_…`` variables itself (docs/operations/monitoring.md). It needs the extra ``otel``.

A span of a statement has its text with placeholders, and never the values: those are tenants'.
"""

import contextlib
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from django.db.backends.signals import connection_created

from bettercompute.telemetry import tracing
from bettercompute.telemetry.tracing import Context, Kind, Span, Value

if TYPE_CHECKING:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

log = logging.getLogger(__name__)

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
STATEMENT_CHARACTERS_MAX = 2_000

_providers: list["TracerProvider"] = []  # none, or one


def start(service: str) -> None:
    """Record spans in this process, if the environment says so; after it has forked."""
    if not is_wanted(os.environ) or _providers:
        return
    try:
        recorder = _recorder(service)
    except ImportError as error:
        log.warning("No traces: %s. Install better-compute with the extra `otel`.", error)
        return
    tracing.use(recorder)
    connection_created.connect(_watch_statements, dispatch_uid="otel")


def stop() -> None:
    """Send what is recorded, and record no more."""
    tracing.use(None)
    connection_created.disconnect(dispatch_uid="otel")
    while _providers:
        _providers.pop().shutdown()


def is_wanted(environ: Mapping[str, str]) -> bool:
    """Whether the environment asks for traces."""
    disabled = environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    nowhere = environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none"
    return not disabled and not nowhere and any(environ.get(name) for name in ENDPOINTS)


def _recorder(service: str) -> "_Recorder":
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    name = os.environ.get("OTEL_SERVICE_NAME") or f"better-compute-{service}"
    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: name}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    _providers.append(provider)
    return _Recorder(provider.get_tracer("bettercompute"))


class _Recorder:
    """Makes OpenTelemetry's spans of ours."""

    def __init__(self, tracer: "trace.Tracer") -> None:
        self._tracer = tracer

    @contextlib.contextmanager
    def record(
        self, name: str, *, kind: Kind, parent: Context | None, attributes: Mapping[str, Value]
    ) -> Iterator[tuple[Span, Context]]:
        from opentelemetry import trace

        span = self._tracer.start_span(
            name,
            context=_parent(parent),
            kind=trace.SpanKind[kind.name],
            attributes=dict(attributes),
        )
        recorded = _Recorded(span)
        place = span.get_span_context()
        try:
            yield (
                recorded,
                Context(
                    trace.format_trace_id(place.trace_id),
                    trace.format_span_id(place.span_id),
                    f"{int(place.trace_flags):02x}",
                ),
            )
        except BaseException as error:
            recorded.fail(error)
            raise
        finally:
            span.end()


class _Recorded:
    """One of OpenTelemetry's spans, as ours."""

    def __init__(self, span: "trace.Span") -> None:
        self._span = span

    def name(self, name: str) -> None:
        self._span.update_name(name)

    def set(self, name: str, value: Value) -> None:
        self._span.set_attribute(name, value)

    def fail(self, error: BaseException) -> None:
        from opentelemetry import trace

        # Its class only: what an error says may hold what a tenant sent.
        self._span.set_attribute("error.type", type(error).__name__)
        self._span.set_status(trace.StatusCode.ERROR)


def _parent(place: Context | None) -> Any:
    from opentelemetry import context, trace

    if place is None:
        return context.Context()
    return trace.set_span_in_context(
        trace.NonRecordingSpan(
            trace.SpanContext(
                int(place.trace_id, 16),
                int(place.span_id, 16),
                is_remote=True,
                trace_flags=trace.TraceFlags(int(place.flags, 16)),
            )
        ),
        context.Context(),
    )


def _watch_statements(connection: Any, **_: Any) -> None:
    if _record_statement not in connection.execute_wrappers:
        connection.execute_wrappers.append(_record_statement)


def _record_statement(
    execute: Callable[..., Any], statement: Any, parameters: Any, many: bool, context: Any
) -> Any:
    if tracing.current() is None:
        return execute(statement, parameters, many, context)
    text = statement if isinstance(statement, str) else statement.as_string(None)
    attributes: dict[str, Value] = {
        "db.system.name": "postgresql",
        "db.query.text": text[:STATEMENT_CHARACTERS_MAX],
    }
    with tracing.span(_operation(text), kind=Kind.CLIENT, attributes=attributes):
        return execute(statement, parameters, many, context)


def _operation(text: str) -> str:
    """``SELECT``, ``INSERT``…: comments stand before none of our statements but in lines."""
    for line in text.splitlines():
        words = line.split(maxsplit=1)
        if words and not words[0].startswith("--"):
            return words[0].upper()
    return "statement"
