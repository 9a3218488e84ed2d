"""Settings of `better-compute up`: one machine, plain HTTP on loopback, demo data allowed."""

from bettercompute.settings.base import *  # noqa: F403

ALLOWED_HOSTS = ["*"]  # the server listens on loopback only
DEMO_ALLOWED = True
# Static files straight from the packages: there is no collectstatic to forget.
STATIC_ROOT = None
WHITENOISE_USE_FINDERS = True
