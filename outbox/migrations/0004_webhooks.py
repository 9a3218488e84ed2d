"""Webhooks: endpoints, what each is sent, and each time it was (A6)."""

import functools
from pathlib import Path

import django.contrib.postgres.fields
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import bettercompute.columns
import bettercompute.ids

SQL = Path(__file__).parent / "sql"


class Migration(migrations.Migration):
    dependencies = [
        ("coordination", "0003_state_guard"),
        ("iam", "0002_find_changes_by_resource"),
        ("outbox", "0003_add_origin"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="WebhookEndpoint",
            fields=[
                (
                    "id",
                    models.TextField(
                        default=functools.partial(bettercompute.ids.new, *("whk",)),
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("url", models.TextField()),
                ("description", models.TextField(default="")),
                (
                    "event_types",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(),
                        default=list,
                        help_text="exact, or reservation.*; none: all",
                        size=None,
                    ),
                ),
                (
                    "subject",
                    models.TextField(
                        default="", help_text="exact, or reservation/*; empty: whatever it is about"
                    ),
                ),
                ("state", models.TextField(default="enabled")),
                ("version", models.BigIntegerField(default=1)),
                ("created_at", models.DateTimeField(db_default=bettercompute.columns.ComputeNow())),
                (
                    "enabled_at",
                    models.DateTimeField(
                        db_default=bettercompute.columns.ComputeNow(),
                        help_text="it is told of events from this instant on",
                    ),
                ),
                ("disabled_at", models.DateTimeField(null=True)),
                (
                    "disabled_reason",
                    models.TextField(default="", help_text="request, gone or failing"),
                ),
                ("secret", models.TextField(help_text="encrypted; see outbox/webhooks/vault.py")),
                (
                    "previous_secret",
                    models.TextField(default="", help_text="signs too until previous_until"),
                ),
                ("previous_until", models.DateTimeField(null=True)),
                (
                    "lane",
                    models.TextField(
                        choices=[("new", "New"), ("quick", "Quick"), ("slow", "Slow")],
                        default="new",
                    ),
                ),
                (
                    "failures",
                    models.IntegerField(default=0, help_text="attempts in a row that failed"),
                ),
                ("failing_since", models.DateTimeField(null=True)),
                (
                    "paused_until",
                    models.DateTimeField(help_text="nothing is sent before", null=True),
                ),
                ("last_success_at", models.DateTimeField(null=True)),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        help_text="null: events of all tenants",
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="iam.tenant",
                    ),
                ),
            ],
            options={
                "db_table": "webhook_endpoints",
            },
        ),
        migrations.CreateModel(
            name="WebhookDelivery",
            fields=[
                ("id", models.TextField(primary_key=True, serialize=False)),
                ("event_id", models.TextField()),
                ("event_type", models.TextField()),
                ("subject", models.TextField()),
                ("body", models.TextField()),
                ("event_time", models.DateTimeField()),
                (
                    "origin",
                    models.TextField(
                        help_text="the trace and request the event came from", null=True
                    ),
                ),
                (
                    "test",
                    models.BooleanField(
                        default=False, help_text="asked for by a person; tried once"
                    ),
                ),
                (
                    "status",
                    models.TextField(
                        choices=[
                            ("pending", "Pending"),
                            ("delivered", "Delivered"),
                            ("failed", "Failed"),
                        ],
                        default="pending",
                    ),
                ),
                (
                    "attempts",
                    models.IntegerField(
                        default=0, help_text="how often it was taken up to be sent"
                    ),
                ),
                (
                    "attempts_before",
                    models.IntegerField(
                        default=0,
                        help_text="those before it was last sent again by request",
                    ),
                ),
                ("next_at", models.DateTimeField(db_default=bettercompute.columns.ComputeNow())),
                (
                    "claimed_until",
                    models.DateTimeField(help_text="a worker is sending it", null=True),
                ),
                ("created_at", models.DateTimeField(db_default=bettercompute.columns.ComputeNow())),
                ("finished_at", models.DateTimeField(null=True)),
                (
                    "endpoint",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="deliveries",
                        to="outbox.webhookendpoint",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "webhook deliveries",
                "db_table": "webhook_deliveries",
            },
        ),
        migrations.CreateModel(
            name="WebhookAttempt",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("number", models.IntegerField()),
                ("started_at", models.DateTimeField()),
                (
                    "request_headers",
                    models.JSONField(default=dict, help_text="without the signature"),
                ),
                (
                    "response_status",
                    models.IntegerField(help_text="null: there was no answer", null=True),
                ),
                ("response_head", models.TextField(default="", help_text="its first 4 KiB")),
                ("latency_ms", models.IntegerField()),
                (
                    "error",
                    models.TextField(default="", help_text="why it does not count as delivered"),
                ),
                (
                    "retry_at",
                    models.DateTimeField(help_text="null: it is not tried again", null=True),
                ),
                (
                    "delivery",
                    models.ForeignKey(
                        help_text="what was sent",
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="tries",
                        to="outbox.webhookdelivery",
                    ),
                ),
            ],
            options={
                "db_table": "webhook_attempts",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("delivery", "number"), name="webhook_attempt_once"
                    )
                ],
            },
        ),
        migrations.AddIndex(
            model_name="webhookendpoint",
            index=models.Index(
                condition=models.Q(("state", "enabled")),
                fields=["tenant"],
                name="webhook_endpoint_enabled",
            ),
        ),
        migrations.AddConstraint(
            model_name="webhookendpoint",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["enabled", "disabled", "deleted"])),
                name="webhook_endpoint_state_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="webhookendpoint",
            constraint=models.CheckConstraint(
                condition=models.Q(("lane__in", ["new", "quick", "slow"])),
                name="webhook_endpoint_lane_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="webhookendpoint",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("disabled_at__isnull", False),
                        ("state", "disabled"),
                        models.Q(("disabled_reason", ""), _negated=True),
                    ),
                    models.Q(("state", "disabled"), _negated=True),
                    _connector="OR",
                ),
                name="webhook_endpoint_says_why_disabled",
            ),
        ),
        migrations.AddIndex(
            model_name="webhookdelivery",
            index=models.Index(fields=["endpoint", "id"], name="webhook_delivery_newest"),
        ),
        migrations.AddIndex(
            model_name="webhookdelivery",
            index=models.Index(
                condition=models.Q(("status", "pending")),
                fields=["endpoint", "next_at"],
                name="webhook_delivery_pending",
            ),
        ),
        migrations.AddIndex(
            model_name="webhookdelivery",
            index=models.Index(
                condition=models.Q(("claimed_until__isnull", False)),
                fields=["endpoint"],
                name="webhook_delivery_claimed",
            ),
        ),
        migrations.AddIndex(
            model_name="webhookdelivery",
            index=models.Index(fields=["created_at"], name="webhook_delivery_by_age"),
        ),
        migrations.AddConstraint(
            model_name="webhookdelivery",
            constraint=models.UniqueConstraint(
                fields=("endpoint", "event_id"), name="webhook_delivery_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="webhookdelivery",
            constraint=models.CheckConstraint(
                condition=models.Q(("status__in", ["pending", "delivered", "failed"])),
                name="webhook_delivery_status_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="webhookdelivery",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("finished_at__isnull", True), ("status", "pending")),
                    models.Q(
                        models.Q(("status", "pending"), _negated=True),
                        ("finished_at__isnull", False),
                    ),
                    _connector="OR",
                ),
                name="webhook_delivery_finished",
            ),
        ),
        migrations.AddConstraint(
            model_name="webhookdelivery",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("claimed_until__isnull", True), ("status", "pending"), _connector="OR"
                ),
                name="webhook_delivery_claimed_only_pending",
            ),
        ),
        migrations.RunSQL(
            (SQL / "0004_guard_webhooks.sql").read_text(encoding="utf-8"),
            """
            DROP FUNCTION webhook_owner_stays(text, text);
            DROP TRIGGER webhook_endpoints_state_guard ON webhook_endpoints;
            """,
        ),
    ]
