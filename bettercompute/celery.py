"""The Celery application. Messages are wake-ups only: the work itself is rows (C1, C28)."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "bettercompute.settings.embedded")

app = Celery("bettercompute")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["bettercompute.coordination", "outbox", "nodes", "pools", "reservations"])
