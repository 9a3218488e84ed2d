"""Imports go one way, and some packages run without Django."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_the_import_contracts_hold():
    command = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "path",
    [
        path.relative_to(ROOT).as_posix()
        for package in ("bettercompute", "outbox", "nodes", "pools", "reservations")
        for path in sorted((ROOT / package).rglob("__init__.py"))
    ],
)
def test_a_package_says_nothing_in_its_init(path):
    assert (ROOT / path).read_text(encoding="utf-8").strip() == ""


@pytest.mark.parametrize(
    "module",
    ["bettercompute.agent", "bettercompute.wire", "bettercompute.client", "bettercompute.cli"],
)
def test_importing_it_loads_no_django(module):
    code = (
        "import sys, pkgutil, importlib\n"
        f"package = importlib.import_module({module!r})\n"
        "for part in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "    importlib.import_module(part.name) if not part.name.endswith('__main__') else None\n"
        "sys.exit('django' in sys.modules)\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "module",
    [
        "bettercompute.asgi",
        "bettercompute.celery",
        "nodes.gateway.app",
    ],
)
def test_a_program_starts_by_importing_it_alone(module):
    """As gunicorn and Celery do: nobody has set Django up before."""
    command = [sys.executable, "-W", "error", "-c", f"import {module}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
