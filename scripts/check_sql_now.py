#!/usr/bin/env python3
"""Fail on any source of time but the one clock (C6, C7).

In SQL files and in string literals of Python (f-strings and concatenations included; docstrings
are prose): ``now()``, ``CURRENT_TIMESTAMP`` and their kin, where ``compute_now()`` belongs.
In Python code: ``datetime.now``, ``time.time``, ``timezone.now``, ``auto_now``, ``Now()`` and their
kin, under whatever name they were imported, where ``bettercompute.clock`` belongs.

Exempt are the migration that defines ``compute_now()``, the clock module, and lines marked
``check-sql-now: allow`` (or directly under a comment with that mark).
"""

import argparse
import ast
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

PRODUCT = ("bettercompute", "outbox", "nodes", "pools", "reservations", "manage.py", "templates")
ALLOW = "check-sql-now: allow"
SQL_EXEMPT = (
    "bettercompute/coordination/migrations/0001_clock.py",
    "bettercompute/coordination/migrations/sql/0001_clock.sql",
)
PYTHON_EXEMPT = ("bettercompute/clock.py",)

SQL_TIME = re.compile(
    r"""(?<![\w.$/])(?:
        (?:pg_catalog\.)?(?:now|transaction_timestamp|statement_timestamp|clock_timestamp|timeofday)
            \s*\(\s*\)
        | (?:current_timestamp|current_time|current_date|localtimestamp|localtime)(?![\w(]*=)\b
        | '(?:now|today|tomorrow|yesterday)'\s*::\s*(?:timestamp|timestamptz|date|time)\b
        | (?:timestamptz|timestamp|date|time)\s+'(?:now|today|tomorrow|yesterday)'
    )""",
    re.IGNORECASE | re.VERBOSE,
)
SQL_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)

PROCESS_TIME = {
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "datetime.datetime.today",
    "datetime.date.today",
    "time.time",
    "time.time_ns",
    "time.gmtime",
    "time.localtime",
    "time.clock_gettime",
    "django.utils.timezone.now",
    "django.utils.timezone.localdate",
    "django.db.models.functions.Now",
    "django.db.models.functions.datetime.Now",
}
AUTO_NOW = {"auto_now", "auto_now_add"}


@dataclass(frozen=True, slots=True, order=True)
class Hit:
    """One place that reads another clock."""

    path: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


def check_sql(text: str, path: str) -> list[Hit]:
    """Hits in a SQL file."""
    if path.endswith(SQL_EXEMPT):
        return []
    lines = text.splitlines()
    # Comments become spaces, so that lines keep their numbers.
    bare = SQL_COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)
    hits = [
        Hit(path, bare.count("\n", 0, found.start()) + 1, f"{found.group()} in SQL")
        for found in SQL_TIME.finditer(bare)
    ]
    return [hit for hit in hits if not _allowed(lines, hit.line, "--")]


def check_python(text: str, path: str) -> list[Hit]:
    """Hits in a Python file."""
    tree = ast.parse(text, path)
    lines = text.splitlines()
    hits: list[Hit] = []
    if not path.endswith(SQL_EXEMPT):
        hits += _strings(tree, path, lines)
    if not path.endswith(PYTHON_EXEMPT):
        hits += [h for h in _process_time(tree, path) if not _allowed(lines, h.line, "#")]
    return sorted(set(hits))


def _allowed(lines: list[str], line: int, comment: str) -> bool:
    above = lines[line - 2].strip() if line > 1 else ""
    return ALLOW in lines[line - 1] or (above.startswith(comment) and ALLOW in above)


def _strings(tree: ast.AST, path: str, lines: list[str]) -> Iterator[Hit]:
    prose = _docstrings(tree)
    inside: set[ast.AST] = set()  # parts of a string already judged as a whole
    for node in ast.walk(tree):
        if node in inside or node in prose:
            continue
        text = _text(node)
        if text is None:
            continue
        inside.update(ast.walk(node))
        bare = SQL_COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)
        for found in SQL_TIME.finditer(bare):
            places = _places(node, text, found.start())
            if not any(_allowed(lines, line, "#") for line in places):
                yield Hit(path, places[0], f"{found.group()} in a string")


def _docstrings(tree: ast.AST) -> set[ast.AST]:
    """Strings that stand alone as statements: they never reach the database."""
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def _text(node: ast.AST) -> str | None:
    """The text of a string expression, `?` for whatever is not literal; None if it is none."""
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(part) or "?" for part in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            texts = (_text(left), _text(right))
            return None if texts == (None, None) else (texts[0] or "?") + (texts[1] or "?")
        case _:
            return None


def _places(node: ast.AST, text: str, start: int) -> list[int]:
    """The line of a hit, where it can be told; else every line of the expression."""
    first = getattr(node, "lineno", 1)
    last = getattr(node, "end_lineno", first) or first
    if text.count("\n") == last - first:
        return [first + text.count("\n", 0, start)]
    return list(range(first, last + 1))


def _process_time(tree: ast.AST, path: str) -> Iterator[Hit]:
    names = _imported(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name):
            dotted = _dotted(node, names)
            if dotted in PROCESS_TIME:
                yield Hit(path, node.lineno, f"{dotted}: business time comes from the clock")
        elif isinstance(node, ast.keyword) and node.arg in AUTO_NOW:
            yield Hit(path, node.value.lineno, f"{node.arg}: use db_default=ComputeNow()")


def _imported(tree: ast.AST) -> dict[str, str]:
    """What each imported name stands for."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.split(".")[0]
                names[alias.asname or root] = alias.name if alias.asname else root
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def _dotted(node: ast.expr, names: dict[str, str]) -> str | None:
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = _dotted(node.value, names)
        return None if owner is None else f"{owner}.{node.attr}"
    return None


def check(paths: Iterable[Path]) -> list[Hit]:
    """Hits in all SQL and Python files under these paths."""
    hits: list[Hit] = []
    for path in paths:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.suffix == ".sql":
                hits += check_sql(file.read_text(encoding="utf-8"), file.as_posix())
            elif file.suffix == ".py":
                hits += check_python(file.read_text(encoding="utf-8"), file.as_posix())
    return hits


def main() -> int:
    """Print every hit; 1 if there is any."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("paths", nargs="*", type=Path, default=[Path(name) for name in PRODUCT])
    hits = check(path for path in parser.parse_args().paths if path.exists())
    for hit in hits:
        print(hit)
    if hits:
        print(f"{len(hits)} places read another clock; see {Path(__file__).name}.", file=sys.stderr)
    return 1 if hits else 0


if __name__ == "__main__":
    sys.exit(main())
