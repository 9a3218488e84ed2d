"""Settings of worker processes that fault tests start to drive real reservations."""

from tests.settings import *  # noqa: F403

WIRING = "tests.support.simulated_wiring"
