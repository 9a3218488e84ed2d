"""Settings of a deployment that tests start: the product's own, and a sink that writes a file."""

from bettercompute.settings.embedded import *  # noqa: F403

WIRING = "tests.support.deployment.wiring"
# Each plane is as on a host of its own: the leases of a killed worker lapse, and nobody knows more.
PRESENCE_DIRECTORY = None
