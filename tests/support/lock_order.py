"""The guard of the one lock order (C19): every test's transactions are watched.

It reads each statement that Django executes, on every connection of the process, and records which
tables of LOCK_ORDER the transaction locks, and when. A test fails if one of its transactions

- locks a table for the first time after one that comes later in the order,
- writes a table whose rows it first took FOR SHARE (C13: such pairs die by deadlock),
- adds rows that refer to another table without holding that one, and locks what comes later: the
  key is checked, and the row it names locked, only at COMMIT, or
- wakes keys of the work queue in an order that is not sorted over its statements.

What it knows: INSERT, UPDATE, DELETE, SELECT … FOR … (with OF), the same inside CTEs and
subqueries, and that ROLLBACK TO SAVEPOINT gives locks back. In a test that runs inside one
transaction, the outermost ``atomic`` of the product counts as the transaction.
"""

import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import pytest
from django.db import connections
from django.db.backends.signals import connection_created
from psycopg.pq import TransactionStatus

import bettercompute.sql
from bettercompute.locking import LOCK_ORDER

RANK = {table: rank for rank, table in enumerate(LOCK_ORDER)}

# Where rows are added → what they refer to, and what somebody locks FOR UPDATE: only that waits for
# the KEY SHARE of a foreign key.
REFERS = {"device_bookings": "devices"}

_NOISE = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'", re.DOTALL)
_TOKEN = re.compile(r'"?[A-Za-z_][\w$]*"?(?:\s*\.\s*"?[A-Za-z_][\w$]*"?)*|[(),;]')
_CLAUSE_ENDS = {"where", "group", "order", "limit", "having", "window", "union", "for", "set"}
_CLAUSE_ENDS |= {"returning", "on", "offset", "except", "intersect", "values", "select"}


class Lock(NamedTuple):
    """A table that a statement locks, and how: ``share`` or ``write``."""

    table: str
    mode: str


class Token(NamedTuple):
    """A word or bracket of a statement, and how deep in brackets it stands."""

    text: str
    depth: int


@lru_cache(maxsize=2_000)
def locks_of(statement: str) -> list[Lock]:
    """The ordered tables that a statement locks, in the order it does so.

    Inner locks (CTEs, subqueries, FOR clauses) come in the order of the text, then the main verb.
    """
    tokens = _tokens(statement)
    inner: list[Lock] = []
    main: list[Lock] = []
    for position, token in enumerate(tokens):
        word = token.text
        before = tokens[position - 1].text if position else ""
        if word == "for":
            inner += _for_clause(tokens, position)
        elif table := _written(tokens, position, word, before):
            (main if token.depth == 0 else inner).append(Lock(table, "write"))
    return [lock for lock in inner + main if lock.table in RANK]


def _tokens(statement: str) -> list[Token]:
    tokens, depth = [], 0
    for match in _TOKEN.finditer(_NOISE.sub("''", statement)):
        text = match.group().replace('"', "").lower()
        text = text.rsplit(".", maxsplit=1)[-1].strip()
        if text == ")":
            depth -= 1
        tokens.append(Token(text, depth))
        if text == "(":
            depth += 1
    return tokens


def _written(tokens: list[Token], position: int, word: str, before: str) -> str | None:
    """The table that a verb at this position writes."""
    following = [token.text for token in tokens[position + 1 : position + 3]] + ["", ""]
    if word == "insert" and following[0] == "into":
        return following[1]
    if word == "delete" and following[0] == "from":
        return following[1]
    if word == "update" and before not in {"for", "key", "do", "on"}:
        return following[1] if following[0] == "only" else following[0]
    return None


def _for_clause(tokens: list[Token], position: int) -> list[Lock]:
    """The tables of ``FOR UPDATE`` and the like: of its own SELECT, or those named by OF."""
    rest = [token.text for token in tokens[position + 1 : position + 5]]
    if rest[:1] in (["update"], ["share"]):
        mode, size = ("write" if rest[0] == "update" else "share"), 1
    elif rest[:3] == ["no", "key", "update"]:
        mode, size = "write", 3
    elif rest[:2] == ["key", "share"]:
        mode, size = "share", 2
    else:
        return []
    tables = _from_tables(tokens, position)
    after = position + 1 + size
    if after < len(tokens) and tokens[after].text == "of":
        named = _names(tokens, after + 1)
        return [Lock(tables.get(name, name), mode) for name in named]
    return [Lock(table, mode) for table in dict.fromkeys(tables.values())]


def _from_tables(tokens: list[Token], position: int) -> dict[str, str]:
    """Alias → table of the FROM clause that belongs to the FOR at ``position``."""
    depth = tokens[position].depth
    start = position
    while start > 0 and tokens[start - 1].depth >= depth:
        if tokens[start].text == "from" and tokens[start].depth == depth:
            break
        start -= 1
    words = [t.text for t in tokens[start:position] if t.depth == depth and t.text not in "()"]
    tables: dict[str, str] = {}
    expecting = False
    index = 0
    while index < len(words):
        word = words[index]
        if word in {"from", "join", ","}:
            expecting = True
        elif expecting and word not in {"only", "lateral"}:
            alias = words[index + 1] if index + 1 < len(words) else ""
            if alias == "as":
                alias = words[index + 2]
            known = alias in _CLAUSE_ENDS | {"", ",", "join", "left", "inner", "cross", "right"}
            tables[word if known else alias] = word
            expecting = False
        elif word in {"where", "order", "group"}:
            break
        index += 1
    return tables


def _names(tokens: list[Token], position: int) -> list[str]:
    names = []
    while position < len(tokens) and tokens[position].text not in {"skip", "nowait", ")", ";"}:
        if tokens[position].text != ",":
            names.append(tokens[position].text)
        position += 1
    return names


# --- watching -----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Taken:
    """What a transaction has locked so far: table → mode of the first lock; the last key woken."""

    modes: dict[str, str] = field(default_factory=dict)
    referring: frozenset[str] = frozenset()  # tables added to without holding what they refer to
    woken: tuple[str, str] = ("", "")

    def copy(self) -> "_Taken":
        return _Taken(dict(self.modes), self.referring, self.woken)


@dataclass(slots=True)
class _Watch:
    """One connection: its current transaction and savepoints."""

    block: object | None = None
    taken: _Taken = field(default_factory=_Taken)
    savepoints: list[tuple[str, _Taken]] = field(default_factory=list)


class Guard:
    """Watches statements; ``violations`` is what it found."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self._watches: dict[int, _Watch] = {}
        self._kept: list[Any] = []  # connections, so that no id is used twice

    def __call__(
        self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any
    ) -> Any:
        """Django's execute_wrapper."""
        connection = context["connection"]
        text = sql if isinstance(sql, str) else sql.as_string(connection.connection)
        watch = self._watch(connection)
        if not self._savepoint(watch, text):
            result = execute(sql, params, many, context)
            self._record(watch, text)
            if isinstance(params, dict) and "INTO work_queue" in text:
                self._record_woken(watch, text, params)
            return result
        return execute(sql, params, many, context)

    def _watch(self, connection: Any) -> _Watch:
        key = id(connection)
        if key not in self._watches:
            self._watches[key] = _Watch()
            self._kept.append(connection)
        watch = self._watches[key]
        blocks = [b for b in connection.atomic_blocks if not b._from_testcase]
        block = blocks[0] if blocks else None
        # The same block may come again: ``@atomic`` is one object for all calls of its function.
        raw = connection.connection
        begins = raw is not None and raw.info.transaction_status == TransactionStatus.IDLE
        if block is None or block is not watch.block or begins:
            watch.block, watch.taken, watch.savepoints = block, _Taken(), []
        return watch

    def _savepoint(self, watch: _Watch, text: str) -> bool:
        words = text.replace('"', "").split()
        match [word.upper() for word in words[:3]]:
            case ["SAVEPOINT", name]:
                watch.savepoints.append((name, watch.taken.copy()))
            case ["ROLLBACK", "TO", "SAVEPOINT"]:
                self._roll_back(watch, words[3].upper())
            case ["RELEASE", "SAVEPOINT", name]:
                kept = [n for n, _ in watch.savepoints]
                if name in kept:
                    del watch.savepoints[kept.index(name) :]
            case _:
                return False
        return True

    def _roll_back(self, watch: _Watch, name: str) -> None:
        for position, (known, taken) in enumerate(watch.savepoints):
            if known == name:
                watch.taken = taken.copy()
                del watch.savepoints[position + 1 :]
                return

    def _record(self, watch: _Watch, text: str) -> None:
        for lock in locks_of(text):
            modes = watch.taken.modes
            later = [table for table in modes if RANK[table] > RANK[lock.table]]
            if lock.table not in modes and later:
                self._blame(f"{lock.table} is locked after {', '.join(later)}", text)
            elif modes.get(lock.table) == "share" and lock.mode == "write":
                self._blame(f"{lock.table} is written after FOR SHARE", text)
            modes.setdefault(lock.table, lock.mode)
            for table in watch.taken.referring:
                if RANK[lock.table] > RANK[table]:
                    self._blame(f"{REFERS[table]} is locked at COMMIT, after {lock.table}", text)
        added = text.replace('"', "").lower()
        watch.taken.referring |= {
            table
            for table, referred in REFERS.items()
            if f"insert into {table} " in added and referred not in watch.taken.modes
        }

    def _record_woken(self, watch: _Watch, text: str, params: dict[str, Any]) -> None:
        keys = sorted(zip(params["kinds"], params["keys"], strict=True))
        if keys and keys[0] < watch.taken.woken:
            self._blame(f"{keys[0]} is woken after {watch.taken.woken}", text)
        watch.taken.woken = max([watch.taken.woken, *keys])

    def _blame(self, what: str, text: str) -> None:
        product = [
            f"{frame.filename}:{frame.lineno} {frame.name}"
            for frame in traceback.extract_stack()
            if "/site-packages/" not in frame.filename
            and frame.filename not in {__file__, bettercompute.sql.__file__}
        ]
        self.violations.append(
            f"{what}\n  {' '.join(text.split())[:300]}\n  at {', '.join(product[-4:])}"
        )


@contextmanager
def watching() -> Iterator[Guard]:
    """Watch every connection of this process, those of other threads included."""
    guard = Guard()

    def watch_new(sender: object, connection: Any, **_: Any) -> None:
        if guard not in connection.execute_wrappers:
            connection.execute_wrappers.append(guard)

    here = connections["default"]
    here.execute_wrappers.append(guard)
    connection_created.connect(watch_new)
    try:
        yield guard
    finally:
        connection_created.disconnect(watch_new)
        if guard in here.execute_wrappers:
            here.execute_wrappers.remove(guard)


@pytest.fixture(autouse=True)
def lock_order_guard(request: pytest.FixtureRequest) -> Iterator[Guard | None]:
    """Fail a test whose transactions break the lock order (C19)."""
    uses_database = request.node.get_closest_marker("django_db") or "db" in request.fixturenames
    if not uses_database or request.node.get_closest_marker("any_lock_order"):
        yield None
        return
    with watching() as guard:
        yield guard
    if guard.violations:
        pytest.fail("C19, the lock order:\n" + "\n".join(dict.fromkeys(guard.violations)))
