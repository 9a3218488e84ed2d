"""No statement of the product leaves anything on a session (C24): every test watches for it.

A transaction pooler hands the next transaction to another session, and a session outlives a client
that died (case 32). So settings, prepared statements, cursors, session locks, listeners and
temporary tables must end with their transaction.
"""

import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from django.db.backends.signals import connection_created

ROOT = Path(__file__).resolve().parents[2]
RUNS_WHAT_IS_NAMED = ROOT / "bettercompute" / "sql.py"

_COMMENT_OR_TEXT = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'", re.DOTALL)
# At the start of a statement.
_VERBS = re.compile(
    r"(?:^|;)\s*("
    r"set\s+(?!local\b|transaction\b|constraints\b)\w+"
    r"|reset\s+\w+|discard\s+\w+|load\s"
    r"|prepare\s+(?!transaction\b)\w+|execute\s+\w+|deallocate\s+\w+"
    r"|declare\s+.*?\bwith\s+hold\b"
    r"|listen\s+\w+|unlisten\s"
    r"|create\s+(?:(?:global|local)\s+)?temp(?:orary)?\s+table(?!.*?\bon\s+commit\s+drop\b)"
    r")",
    re.IGNORECASE | re.DOTALL,
)
# Anywhere.
_CALLS = re.compile(
    r"\b(pg_(?:try_)?advisory_(?:un)?lock(?:_shared|_all)?|currval|lastval|setseed)\s*\("
    r"|\b(set_config)\s*\([^()]*,\s*false\s*\)",
    re.IGNORECASE,
)


@lru_cache(maxsize=4_000)
def of(statement: str) -> str | None:
    """What of the statement outlives its transaction; None is nothing."""
    bare = _COMMENT_OR_TEXT.sub(" ", statement)
    found = _VERBS.search(bare) or _CALLS.search(bare)
    if found is None:
        return None
    return " ".join(next(group for group in found.groups() if group).lower().split())


@contextmanager
def watching() -> Iterator[list[str]]:
    """Watch every connection of this process, and list what the product leaves on a session."""
    left: list[str] = []

    def watch(execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any) -> Any:
        text = sql if isinstance(sql, str) else sql.as_string(context["connection"].connection)
        if (what := of(text)) and (where := _product()):
            left.append(f"{what}, at {where}: {' '.join(text.split())[:200]}")
        return execute(sql, params, many, context)

    def watch_new(sender: object, connection: Any, **_: Any) -> None:
        if watch not in connection.execute_wrappers:
            connection.execute_wrappers.append(watch)

    here = connections["default"]
    here.execute_wrappers.append(watch)
    connection_created.connect(watch_new)
    try:
        yield left
    finally:
        connection_created.disconnect(watch_new)
        if watch in here.execute_wrappers:
            here.execute_wrappers.remove(watch)


@pytest.fixture(autouse=True)
def session_state_guard(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test in which the product left something on a session."""
    uses_database = request.node.get_closest_marker("django_db") or "db" in request.fixturenames
    if not uses_database or request.node.get_closest_marker("any_session_state"):
        yield
        return
    with watching() as left:
        yield
    if left:
        pytest.fail("C24, left on a session:\n" + "\n".join(dict.fromkeys(left)))


def _product() -> str | None:
    """The line of ours that sent it; None where a test did."""
    stack = traceback.extract_stack()
    # What lies behind are wrappers of statements, such as this one.
    names = [frame.name for frame in stack]
    sent = stack[: names.index("_execute_with_wrappers")]
    for frame in reversed(sent):
        path = Path(frame.filename)
        if path.is_relative_to(ROOT) and ".venv" not in path.parts and path != RUNS_WHAT_IS_NAMED:
            relative = path.relative_to(ROOT)
            return None if relative.parts[0] == "tests" else f"{relative}:{frame.lineno}"
    return None
