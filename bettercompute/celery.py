"""The Celery application. Messages are wake-ups only: the work itself is rows (C1, C28)."""

import os

from celery import Celery
from kombu.transport import redis

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "bettercompute.settings.embedded")

# A hint that nobody has acted on yet goes with its connection: beat ticks every second. Putting it
# back would leave a queue behind that nobody reads.
redis.Channel.do_restore = False

app = Celery("bettercompute")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["bettercompute.coordination", "outbox", "nodes", "pools", "reservations"])
