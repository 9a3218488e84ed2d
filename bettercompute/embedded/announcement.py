"""What a person reads once the deployment is ready."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def ready(url: str, seeded: Mapping[str, Any], *, home: Path, seconds: float) -> str:
    """The address, who may sign in, and how to stop."""
    logins = "\n".join(
        f"  {login['username']:<10} {login['password']}" for login in seeded["logins"].values()
    )
    return (
        f"\nBetter Compute is ready at {url} after {seconds:.0f} s. Sign in as\n\n{logins}\n\n"
        f"API tokens are in {home / 'demo.json'}, logs in {home / 'logs'}. Ctrl-C stops everything."
    )
