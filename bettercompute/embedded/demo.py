"""`demo.json`: how people and tests find the running deployment and sign in.

It is there exactly while everything it names is ready: removed at the start and at the end, written
last.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bettercompute.embedded import directories

FILE = "demo.json"


def remove(home: Path) -> None:
    (home / FILE).unlink(missing_ok=True)


def secrets(home: Path) -> Path:
    """The file in which the seed keeps passwords and tokens, so that a restart prints the same."""
    path = home / "demo-secrets.json"
    if not path.exists():
        directories.write_private(path, "{}\n")
    return path


def write(home: Path, *, url: str, gateway: str, seeded: Mapping[str, Any]) -> None:
    """Say where the deployment is and who may sign in, to its owner alone."""
    content = {"url": url, "gateway": gateway, **seeded}
    directories.write_private(home / FILE, json.dumps(content, indent=2) + "\n")
