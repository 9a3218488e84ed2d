"""A receiver of traces on loopback, as a collector is one: OTLP over HTTP, real protobuf."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as otlp

Attributes = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ReceivedSpan:
    """One span, and the service that it is of."""

    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    attributes: Attributes


@dataclass(slots=True)
class Receiver:
    """What has arrived so far."""

    url: str = ""
    raw: list[bytes] = field(default_factory=list)

    def spans(self, trace_id: str | None = None) -> list[ReceivedSpan]:
        """Every span, or those of one trace."""
        found = [span for body in list(self.raw) for span in _spans(body)]
        return [span for span in found if trace_id in {None, span.trace_id}]

    def wait_for(
        self, enough: Callable[[list[ReceivedSpan]], bool], *, trace_id: str, seconds: float
    ) -> list[ReceivedSpan]:
        """The spans of a trace, once they are enough, or when the time is over."""
        deadline = time.monotonic() + seconds
        while not enough(found := self.spans(trace_id)) and time.monotonic() < deadline:
            time.sleep(0.1)
        return found


@contextlib.contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver that ends with the block."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            receiver.raw.append(self.rfile.read(int(self.headers["Content-Length"])))
            body = otlp.ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # its name there
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _spans(body: bytes) -> Iterator[ReceivedSpan]:
    request = otlp.ExportTraceServiceRequest.FromString(body)
    for resource in request.resource_spans:
        service = _attributes(resource.resource.attributes)["service.name"]
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield ReceivedSpan(
                    service,
                    span.name,
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    _attributes(span.attributes),
                )


def _attributes(pairs: Any) -> Attributes:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}
