"""Settings of `better-compute up`: one machine, plain HTTP on loopback, demo data allowed."""

from bettercompute.settings.base import *  # noqa: F403

ALLOWED_HOSTS = ["*"]  # the server listens on loopback only
DEMO_ALLOWED = True
