"""Settings of a deployment that tests start: the product's own, and a sink that writes a file."""

from bettercompute.settings.embedded import *  # noqa: F403

WIRING = "tests.support.deployment.wiring"
