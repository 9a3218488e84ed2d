"""Settings of the worker processes that fault tests start: they run the probe."""

from tests.settings import *  # noqa: F403

WIRING = "tests.support.probe_wiring"
