"""What a view that was asked for a stream tells the server process (as ``web.longpoll`` does).

The view authenticates, judges and finds the place to begin, in Django like every other request. Its
answer begins the stream; the header ``X-BetterCompute-Stream`` says how it goes on, and the server
takes it off.
"""

from dataclasses import asdict, dataclass
from math import inf, isinf
from typing import Any

from pydantic_core import from_json, to_json

from bettercompute.iam.standing import Credential
from outbox import positions
from outbox.filters import Filters
from outbox.positions import Position

HEADER = "X-BetterCompute-Stream"
NAME = HEADER.lower().encode()


@dataclass(frozen=True, slots=True)
class Marker:
    """Whose stream it is, of which events, behind which position."""

    credential: Credential
    filters: Filters
    position: Position
    seconds: float = inf  # how long its token or session lasts

    def write(self) -> str:
        """As the header's JSON."""
        asked = self.filters
        return to_json(
            {
                "credential": asdict(self.credential),
                "tenant": asked.tenant_id,
                "types": None if asked.types is None else sorted(asked.types),
                "subject": asked.subject,
                "position": str(self.position),
                "seconds": None if isinf(self.seconds) else self.seconds,
            }
        ).decode()

    @classmethod
    def read(cls, value: bytes) -> "Marker":
        """From the header's JSON."""
        said: dict[str, Any] = from_json(value)
        types = said["types"]
        return cls(
            Credential(**said["credential"]),
            Filters(
                tenant_id=said["tenant"],
                types=None if types is None else frozenset(types),
                subject=said["subject"],
            ),
            positions.parse(said["position"]),
            inf if said["seconds"] is None else said["seconds"],
        )
