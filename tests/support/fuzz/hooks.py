"""Gives what schemathesis makes up a world to act on: what could be an id becomes a real one.

Loaded by schemathesis itself (SCHEMATHESIS_HOOKS). Values that no id could be stay as they are, so
what must be refused is sent as well; and now and then a made-up id stays, which must be not found.
"""

import json
import os
import random
from typing import Any

import schemathesis

_REAL: dict[str, list[str]] = json.loads(os.environ.get("FUZZ_IDS", "{}"))
_CHANCE = 0.8
_RANDOM = random.Random(0)


@schemathesis.hook
def map_body(context: Any, body: Any) -> Any:
    """The tenant and the pool of a body."""
    return _real(body) if isinstance(body, dict) else body


@schemathesis.hook
def map_path_parameters(context: Any, path_parameters: Any) -> Any:
    """Whose path it is."""
    return _real(path_parameters) if path_parameters else path_parameters


@schemathesis.hook
def map_query(context: Any, query: Any) -> Any:
    """The tenant of a query."""
    return _real(query) if query else query


def _real(given: dict[str, Any]) -> dict[str, Any]:
    return {name: _chosen(name, value) for name, value in given.items()}


def _chosen(name: str, value: Any) -> Any:
    could_be = isinstance(value, str) and value.isprintable() and 1 <= len(value) <= 255
    if name in _REAL and could_be and _RANDOM.random() < _CHANCE:
        return _RANDOM.choice(_REAL[name])
    return value
