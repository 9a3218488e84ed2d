"""How many statements a route sends, against ``tests/query_counts.json``.

``UPDATE_QUERY_COUNTS=1`` rewrites the file, and its diff is read in review.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.db import connection

FILE = Path(__file__).parents[1] / "query_counts.json"
# Only simulated time asks the database each time.
_CLOCK = "SELECT compute_now()"


@contextmanager
def expected(name: str) -> Iterator[None]:
    """Send as many statements as the file says for this name, savepoints included."""
    sent: list[str] = []

    def count(execute: Any, sql: Any, params: Any, many: bool, context: Any) -> Any:
        text = sql if isinstance(sql, str) else sql.as_string(context["connection"].connection)
        if text != _CLOCK:
            sent.append(" ".join(text.split())[:120])
        return execute(sql, params, many, context)

    with connection.execute_wrapper(count):
        yield
    known: dict[str, int] = json.loads(FILE.read_text(encoding="utf-8"))
    if os.environ.get("UPDATE_QUERY_COUNTS"):
        known[name] = len(sent)
        text = json.dumps(dict(sorted(known.items())), indent=2)
        FILE.write_text(f"{text}\n", encoding="utf-8")
    listed = "\n".join(sent)
    assert len(sent) == known.get(name), f"{name} sends {len(sent)} statements:\n{listed}"
