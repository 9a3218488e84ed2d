"""Settings of the worker processes that fault tests start: they run the probe."""

import os
from pathlib import Path

from tests.settings import *  # noqa: F403

WIRING = "tests.support.probe_wiring"
PRESENCE_DIRECTORY = Path(where) if (where := os.environ.get("HOST_OF_WORKERS")) else None
