"""What a view that was asked for a stream tells the server process (as ``web.longpoll`` does).

The view authenticates, judges and finds the place to begin, in Django like every other request. Its
answer begins the stream; the header ``X-BetterCompute-Stream`` says how it goes on, and the server
takes it off.
"""

import json
from dataclasses import dataclass

from pydantic import TypeAdapter

from bettercompute.iam.standing import Credential
from outbox.filters import Filters
from outbox.positions import Position

HEADER = "X-BetterCompute-Stream"


@dataclass(frozen=True, slots=True)
class Marker:
    """Whose stream it is, of which events, behind which position."""

    credential: Credential
    filters: Filters
    position: Position
    seconds: float | None = None  # how long its token or session lasts, where that is known

    def write(self) -> str:
        """As the header's JSON: in ASCII, as headers are, whatever is asked for."""
        return json.dumps(_MARKERS.dump_python(self, mode="json"))

    @classmethod
    def read(cls, value: bytes) -> "Marker":
        """From the header's JSON."""
        return _MARKERS.validate_json(value)


_MARKERS = TypeAdapter(Marker)
