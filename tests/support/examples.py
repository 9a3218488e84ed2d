"""The recorded examples of the OpenAPI document: real requests, in a world of one of each thing.

Ids and secrets are written as others of the same form, so that a second recording differs only
where an answer does.
"""

import json
import re
from pathlib import Path
from typing import Any

from bettercompute.web import document

FILE = Path(document.__file__).with_name("examples.json")

_SECRET = re.compile(r"\b(bc[tf])_[0-9a-z]{26}_[a-z2-7]+|\bwhsec_[A-Za-z0-9+/=]+")
_ID = re.compile(r"\b([a-z]{2,8})_(?!01k0{8})[0-9a-z]{26}\b")
_UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")


class Recorder:
    """Collects examples, and writes ids in the order in which they are seen."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, Any]] = {}
        self._ids: dict[str, str] = {}

    def add(
        self, operation: str, *, path: dict[str, str], request: Any, status: int, answer: bytes
    ) -> None:
        """One request and its answer."""
        self.found[operation] = {
            "path": self._written(path),
            "request": self._written(request),
            "status": status,
            "answer": self._written(json.loads(answer)) if answer else None,
        }

    def write(self) -> None:
        """Into the package."""
        text = json.dumps(dict(sorted(self.found.items())), indent=1, ensure_ascii=False)
        FILE.write_text(f"{text}\n", encoding="utf-8")

    def _written(self, value: Any) -> Any:
        text = json.dumps(value)
        text = _SECRET.sub(lambda found: f"{found[0].partition('_')[0]}_shown-this-once", text)
        text = _ID.sub(lambda found: self._as_other(found[0], found[1]), text)
        text = _UUID.sub(lambda found: self._as_other(found[0], ""), text)
        return json.loads(text.replace("http://testserver", "https://compute.example"))

    def _as_other(self, known: str, prefix: str) -> str:
        if known not in self._ids:
            count = len(self._ids) + 1
            self._ids[known] = (
                f"{prefix}_01k{count:023}" if prefix else f"00000000-0000-4000-8000-{count:012}"
            )
        return self._ids[known]
