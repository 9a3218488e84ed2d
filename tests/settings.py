"""Settings of the test run: real PostgreSQL and Valkey, fast password hashes, no demo."""

import os

os.environ.setdefault("BETTERCOMPUTE_SECRET_KEY", "only-for-tests-" + "x" * 50)

from bettercompute.settings import env
from bettercompute.settings.base import *
from bettercompute.settings.base import DATABASES

ALLOWED_HOSTS = ["*"]
DEMO_ALLOWED = True
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DATABASES["default"]["TEST"] = {"NAME": os.environ.get("TEST_DB_NAME", "test_bettercompute")}
DATABASES["default"]["CONN_MAX_AGE"] = 0
HINTS = False  # no broker thread behind a test; tests of the hints themselves switch it on
PRESENCE_DIRECTORY = None  # no process of a test run is another's neighbour, unless a test says so
# Webhooks of a test go to its own receivers; what is refused by default is tested beside that.
WEBHOOK_NETWORKS = env.networks("127.0.0.1, ::1")
WEBHOOK_PLAIN_HTTP = True
# One address makes all of a test run's attempts; the tests of limits set their own.
ATTEMPTS_PER_MINUTE = 0
METRICS_DIRECTORY = None  # a test reads what its own process counted
# Static files straight from where they are: nothing is collected for a test.
STATIC_ROOT = None
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = True
