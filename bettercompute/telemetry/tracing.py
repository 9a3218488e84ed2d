"""Which trace the work at hand belongs to, over threads and processes (W3C Trace Context).

Every request and every run of the work queue has a trace id, whether or not anybody collects
spans: it stands in each line of log, and goes with what the work leaves behind (``origin``), so
that what a worker does minutes later can be found by the request that asked for it. Spans are
recorded only where ``telemetry.otel`` was started; elsewhere ``span`` costs a comparison.
"""

import contextlib
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from structlog import contextvars

HEADER = "traceparent"
#: Later than this after its request, work is a trace of its own: a reservation may live for months.
ORIGIN_MS_MAX = 15 * 60 * 1_000

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_NOT_SAMPLED = "00"

Value = str | int | float | bool


class Kind(StrEnum):
    """What a span is to its neighbours."""

    SERVER = "server"  # answers a request
    CONSUMER = "consumer"  # does what a row asks for
    CLIENT = "client"  # asks another server
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class Context:
    """A place in a trace, the request it began with, and when that was."""

    trace_id: str
    span_id: str
    flags: str = _NOT_SAMPLED
    request_id: str = ""
    began_ms: int = 0

    @property
    def traceparent(self) -> str:
        """As the header ``traceparent`` says it."""
        return f"00-{self.trace_id}-{self.span_id}-{self.flags}"


class Span(Protocol):
    """Something that is under way, and what is known of it."""

    def name(self, name: str) -> None:
        """Call it otherwise, once that is known."""

    def set(self, name: str, value: Value) -> None:
        """Remember something of it; never what is secret."""

    def fail(self, error: BaseException) -> None:
        """It went wrong."""


class Recorder(Protocol):
    """Where spans go: ``telemetry.otel``."""

    def record(
        self, name: str, *, kind: Kind, parent: Context | None, attributes: Mapping[str, Value]
    ) -> contextlib.AbstractContextManager[tuple[Span, Context]]:
        """Record a span from here to the end of the block."""


class _Unrecorded:
    """A span that nobody collects."""

    def name(self, name: str) -> None:
        pass

    def set(self, name: str, value: Value) -> None:
        pass

    def fail(self, error: BaseException) -> None:
        pass


UNRECORDED: Span = _Unrecorded()

_current: ContextVar[Context | None] = ContextVar("trace", default=None)
_recorders: list[Recorder] = []  # none, or one


def use(recorder: Recorder | None) -> None:
    """Have spans recorded from now on, or no longer."""
    _recorders[:] = [] if recorder is None else [recorder]


def current() -> Context | None:
    """Where we are; None where nothing that began with a request or a row is under way."""
    return _current.get()


def traceparent() -> str | None:
    """What to tell a server that is asked on behalf of the work at hand."""
    here = _current.get()
    return None if here is None else here.traceparent


@contextlib.contextmanager
def entered(
    name: str, *, kind: Kind, parent: Context | None = None, request_id: str = ""
) -> Iterator[Span]:
    """Work that begins here: of a trace that came along, or of a new one.

    While it lasts, every line of log has its ``trace_id`` and ``request_id``.
    """
    request_id = request_id or (parent.request_id if parent else "")
    began_ms = parent.began_ms if parent and parent.began_ms else _wall_clock_ms()
    with _recorded(name, kind, parent) as (span, place):
        here = Context(place.trace_id, place.span_id, place.flags, request_id, began_ms)
        known = {"trace_id": here.trace_id, "request_id": request_id}
        if not request_id:
            del known["request_id"]
        token = _current.set(here)
        try:
            with contextvars.bound_contextvars(**known):
                yield span
        finally:
            _current.reset(token)


@contextlib.contextmanager
def span(
    name: str, *, kind: Kind = Kind.INTERNAL, attributes: Mapping[str, Value] | None = None
) -> Iterator[Span]:
    """A part of the work at hand that is worth a span of its own."""
    here = _current.get()
    if not _recorders or here is None:
        yield UNRECORDED
        return
    with _recorders[0].record(name, kind=kind, parent=here, attributes=attributes or {}) as (
        recorded,
        place,
    ):
        inner = Context(place.trace_id, place.span_id, place.flags, here.request_id, here.began_ms)
        token = _current.set(inner)
        try:
            yield recorded
        finally:
            _current.reset(token)


def read(header: str | None) -> Context | None:
    """The place that a ``traceparent`` names; None where it names none (W3C says: begin anew)."""
    found = _TRACEPARENT.fullmatch(header.strip()) if header else None
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == "ff" or (version == "00" and more) or not int(trace_id, 16) * int(span_id, 16):
        return None
    return Context(trace_id, span_id, flags)


def origin() -> str | None:
    """What a row keeps of the work that wrote it: ``<traceparent> <milliseconds> <request id>``."""
    here = _current.get()
    if here is None or _wall_clock_ms() - here.began_ms > ORIGIN_MS_MAX:
        return None
    return f"{here.traceparent} {here.began_ms} {here.request_id}".rstrip()


def from_origin(kept: str | None) -> Context | None:
    """The place that a row came from."""
    header, _, rest = (kept or "").partition(" ")
    place = read(header)
    if place is None:
        return None
    began_ms, _, request_id = rest.partition(" ")
    return Context(
        place.trace_id,
        place.span_id,
        place.flags,
        request_id,
        int(began_ms) if began_ms.isascii() and began_ms.isdigit() else 0,
    )


@contextlib.contextmanager
def _recorded(name: str, kind: Kind, parent: Context | None) -> Iterator[tuple[Span, Context]]:
    if _recorders:
        with _recorders[0].record(name, kind=kind, parent=parent, attributes={}) as recorded:
            yield recorded
        return
    trace_id = parent.trace_id if parent else secrets.token_hex(16)
    flags = parent.flags if parent else _NOT_SAMPLED
    yield UNRECORDED, Context(trace_id, secrets.token_hex(8), flags)


def _wall_clock_ms() -> int:
    # How long ago a trace began, for people who read traces; nothing is decided by it.
    return time.time_ns() // 1_000_000  # check-sql-now: allow
