"""manage.py beside a deployment: what it lacks is said in a line, not in a traceback."""

import os
import subprocess
import sys
from pathlib import Path

MANAGE = Path(__file__).parents[3] / "manage.py"


def test_a_variable_that_is_missing_is_named_without_a_traceback() -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "DJANGO_SETTINGS_MODULE": "bettercompute.settings.production",
    }
    done = subprocess.run(
        [sys.executable, MANAGE, "audit_verify"],
        check=False,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "BETTERCOMPUTE_SECRET_KEY must have" in line
    assert "docs/operations/configuration.md" in line
