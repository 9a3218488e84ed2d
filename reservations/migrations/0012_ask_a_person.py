"""Agents: whose name is on a reservation, and what they ask their person for (R36)."""

from datetime import timedelta
from functools import partial
from pathlib import Path

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import bettercompute.ids

SQL = Path(__file__).parent / "sql"
LIVE = models.Q(("state__in", ["open", "approved"]))


class Migration(migrations.Migration):
    dependencies = [
        ("iam", "0004_delegate_tokens"),
        ("reservations", "0011_feed_calendars"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="reservation",
            name="agent",
            field=models.TextField(
                db_default="",
                default="",
                help_text="who asked for it for its owner; empty: the owner",
            ),
        ),
        migrations.AlterField(
            model_name="reservation",
            name="confirmation_id",
            field=models.TextField(default="", help_text="what its owner was asked (R36)"),
        ),
        migrations.CreateModel(
            name="Confirmation",
            fields=[
                (
                    "id",
                    models.TextField(
                        default=partial(bettercompute.ids.new, "cnf"),
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("agent", models.TextField()),
                ("action", models.TextField()),
                ("resource_id", models.TextField(help_text="a reservation or a series")),
                ("asked", models.JSONField(help_text="what of it exactly")),
                ("digest", models.TextField(help_text="SHA-256 of what is asked")),
                ("state", models.TextField(default="open")),
                ("reason", models.TextField(default="", help_text="why it was denied")),
                ("asked_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("decided_at", models.DateTimeField(null=True)),
                (
                    "ended_at",
                    models.DateTimeField(help_text="reached a terminal state", null=True),
                ),
                ("version", models.BigIntegerField(default=1)),
                (
                    "account",
                    models.ForeignKey(
                        help_text="the person",
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "decided_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="iam.tenant",
                    ),
                ),
                (
                    "token",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="iam.apitoken",
                    ),
                ),
            ],
            options={
                "db_table": "confirmations",
                "indexes": [
                    models.Index(fields=["tenant", "-id"], name="confirmation_newest"),
                    models.Index(fields=["account", "tenant", "-id"], name="confirmation_mine"),
                    models.Index(condition=LIVE, fields=["account"], name="confirmation_live"),
                    models.Index(fields=["ended_at"], name="confirmation_over"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=LIVE,
                        fields=("token", "action", "resource_id", "digest"),
                        name="confirmation_asked_once",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("expires_at__lte", models.F("asked_at") + timedelta(minutes=30))
                        ),
                        name="confirmation_within_half_an_hour",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ["approved", "used"]), _negated=True),
                            ("decided_at__isnull", False),
                            _connector="OR",
                        ),
                        name="confirmation_decided_by_somebody",
                    ),
                ],
            },
        ),
        migrations.RunSQL(
            (SQL / "0012_guard_confirmations.sql").read_text(encoding="utf-8"),
            "DROP TRIGGER confirmations_state_guard ON confirmations;",
        ),
    ]
