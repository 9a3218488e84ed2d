#!/usr/bin/env python3
"""Print every rule with the tests that prove it; fail on a required rule that none proves.

A test proves a rule by its mark, ``@pytest.mark.rule("C9")``: on the function, its class, one of
its parameters, or the module's ``pytestmark``. Marks are read from the syntax tree, so this takes a
moment and needs no database. A story under tests/api carries ``rules: [A3, …]``.
"""

import argparse
import ast
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RULES = ROOT / "docs" / "rules.toml"
TESTS = ROOT / "tests"
STATUSES = ("required", "planned")

_STORY_RULES = re.compile(r"^\s*rules:\s*\[([^\]]*)\]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of docs/rules.toml."""

    id: str
    status: str
    text: str


def read(path: Path = RULES) -> list[Rule]:
    """The rules, in the order of the file."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    rules = [Rule(name, entry["status"], entry["rule"]) for name, entry in table.items()]
    for rule in rules:
        if rule.status not in STATUSES:
            raise ValueError(f"{rule.id}: status is one of {', '.join(STATUSES)}")
    return rules


def proofs(tests: Path = TESTS) -> dict[str, list[str]]:
    """The tests of each rule, as pytest writes them."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(tests.rglob("test_*.py")):
        where = path.relative_to(tests.parent).as_posix()
        for rule, test in marks(path.read_text(encoding="utf-8")):
            found[rule].append(f"{where}::{test}")
    for path in sorted(tests.rglob("*.yaml")):
        where = path.relative_to(tests.parent).as_posix()
        for group in _STORY_RULES.findall(path.read_text(encoding="utf-8")):
            for rule in re.findall(r"[A-Z]\d+", group):
                found[rule].append(where)
    return {rule: list(dict.fromkeys(names)) for rule, names in found.items()}


def marks(text: str) -> Iterator[tuple[str, str]]:
    """(rule, test) of one test module."""
    module = ast.parse(text)
    shared = [rule for node in module.body if _is_pytestmark(node) for rule in _named(node)]
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            own = [rule for mark in node.decorator_list for rule in _named(mark)]
            own += [rule for part in node.body if _is_pytestmark(part) for rule in _named(part)]
            for part in node.body:
                yield from _of_test(part, shared + own, f"{node.name}::")
        else:
            yield from _of_test(node, shared, "")


def _of_test(node: ast.stmt, inherited: list[str], prefix: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
        own = [rule for mark in node.decorator_list for rule in _named(mark)]
        for rule in dict.fromkeys(inherited + own):
            yield rule, prefix + node.name


def _is_pytestmark(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == "pytestmark" for target in node.targets
    )


def _named(node: ast.AST) -> Iterator[str]:
    """The rules of every ``mark.rule(…)`` in an expression."""
    for call in ast.walk(node):
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr == "rule"
        ):
            for argument in call.args:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield argument.value


def problems(rules: list[Rule], proven: Mapping[str, list[str]]) -> list[str]:
    """Required rules without a test, and marks of rules that do not exist."""
    known = {rule.id for rule in rules}
    missing = [
        f"{rule.id} is required and no test proves it: {rule.text}"
        for rule in rules
        if rule.status == "required" and not proven.get(rule.id)
    ]
    unknown = [
        f"{proven[name][0]} proves {name}, which docs/rules.toml does not have"
        for name in sorted(proven.keys() - known)
    ]
    return missing + unknown


def main() -> int:
    """Print the rules; 1 if there is a problem."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quiet", action="store_true", help="print problems only")
    quiet = parser.parse_args().quiet
    rules, proven = read(), proofs()
    for rule in [] if quiet else rules:
        tests = proven.get(rule.id, [])
        print(f"{rule.id} ({rule.status}, {len(tests)} tests) {rule.text}")
        for test in tests:
            print(f"    {test}")
    wrong = problems(rules, proven)
    for problem in wrong:
        print(problem, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
