#!/usr/bin/env python3
"""Break each guard in a copy of the tree and see its tests fail: ``make guards``.

A rule is proven by a test that fails when the rule is broken, and nothing but breaking it shows
that. tests/guards.toml lists for each consistency rule what guards it, how to take the guard away,
and which tests must notice. A guard whose loss no test notices is printed, and the exit code is 1.

Needs DATABASE_URL and REDIS_URL of services that nobody else uses.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GUARDS = ROOT / "tests" / "guards.toml"
PYTEST = ("-m", "pytest", "-q", "-x", "-p", "no:randomly", "-p", "no:cacheprovider")
SECONDS_MAX = 600
FAILED = 1  # pytest's exit code for tests that failed; the others mean that it could not run them


@dataclass(frozen=True, slots=True)
class Guard:
    """One way in which a rule is kept, and how to break it."""

    rule: str
    what: str  # what is broken, in words
    file: str
    find: str  # occurs once in the file
    put: str
    tests: tuple[str, ...]
    picked: str = ""  # pytest's -k

    @property
    def needs_own_database(self) -> bool:
        """Whether the database itself is made otherwise."""
        return "migrations" in self.file or self.file == "bettercompute/clock.py"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of breaking a guard."""

    guard: Guard
    noticed: bool
    seconds: float
    said: str


def read(path: Path = GUARDS) -> list[Guard]:
    """The guards, in the order of the file."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    return [Guard(**{**entry, "tests": tuple(entry["tests"])}) for entry in table["guard"]]


def problems(guards: Sequence[Guard], *, root: Path = ROOT) -> list[str]:
    """Guards that are not where the table says, and tests that do not exist."""
    found = []
    for guard in guards:
        path = root / guard.file
        count = path.read_text(encoding="utf-8").count(guard.find) if path.exists() else 0
        if count != 1:
            found.append(f"{guard.rule}, {guard.what}: found {count} times in {guard.file}")
        found += [
            f"{guard.rule}, {guard.what}: there is no {test}"
            for test in guard.tests
            if not (root / test.partition("::")[0]).exists()
        ]
    return found


def copy_tree(target: Path) -> None:
    """Copy what is or may be committed, as it is in the working tree."""
    listed = subprocess.run(
        ["git", "ls-files", "-coz", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def break_one(guard: Guard, *, tree: Path) -> Verdict:
    """Run the guard's tests in the tree without the guard, and put it back."""
    path = tree / guard.file
    whole = path.read_text(encoding="utf-8")
    began = time.monotonic()
    path.write_text(whole.replace(guard.find, guard.put), encoding="utf-8")
    try:
        code, said = _run_tests(guard, tree=tree)
    finally:
        path.write_text(whole, encoding="utf-8")
    return Verdict(guard, code == FAILED, time.monotonic() - began, said)


def _run_tests(guard: Guard, *, tree: Path) -> tuple[int, str]:
    database = ["--create-db"] if guard.needs_own_database else ["--reuse-db"]
    name = "guards_own" if guard.needs_own_database else "guards"
    picked = ["-k", guard.picked] if guard.picked else []
    try:
        ran = subprocess.run(
            [sys.executable, *PYTEST, *database, *picked, *guard.tests],
            cwd=tree,
            check=False,
            env={**os.environ, "TEST_DB_NAME": name, "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS_MAX,
        )
    except subprocess.TimeoutExpired:
        return -1, f"no end within {SECONDS_MAX} s"
    return ran.returncode, ran.stdout


def main() -> int:
    """Break the guards asked for; 1 if the loss of one goes unnoticed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("rules", nargs="*", help="only these rules, such as C9")
    parser.add_argument("--verbose", action="store_true", help="show what the tests said")
    wanted = parser.parse_args()
    guards = [each for each in read() if not wanted.rules or each.rule in wanted.rules]
    if wrong := problems(guards):
        print("\n".join(wrong), file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="guards-") as home:
        tree = Path(home)
        copy_tree(tree)
        verdicts = [_tell(break_one(guard, tree=tree), wanted.verbose) for guard in guards]
    unnoticed = sum(not verdict.noticed for verdict in verdicts)
    print(f"{len(verdicts) - unnoticed} of {len(verdicts)} broken guards were noticed")
    return 1 if unnoticed else 0


def _tell(verdict: Verdict, verbose: bool) -> Verdict:
    guard = verdict.guard
    word = "noticed" if verdict.noticed else "NOT NOTICED"
    print(f"{guard.rule:4} {word}: {guard.what} ({verdict.seconds:.0f} s)", flush=True)
    if verbose or not verdict.noticed:
        print("\n".join(f"     {line}" for line in verdict.said.splitlines()[-40:]), flush=True)
    return verdict


if __name__ == "__main__":
    sys.exit(main())
