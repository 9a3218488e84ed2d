"""Budgets: how much device-time a tenant may reserve (R39)."""

import functools

import django.db.models.deletion
from django.db import migrations, models

import bettercompute.columns
import bettercompute.ids


class Migration(migrations.Migration):
    dependencies = [
        ("iam", "0002_find_changes_by_resource"),
        ("pools", "0002_limit_pools_and_offers"),
    ]
    operations = [
        migrations.CreateModel(
            name="Budget",
            fields=[
                (
                    "id",
                    models.TextField(
                        default=functools.partial(bettercompute.ids.new, "bud"),
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("name", models.TextField()),
                ("gpu_milli_hours", models.BigIntegerField(help_text="thousandths of a GPU-hour")),
                (
                    "period",
                    models.TextField(
                        choices=[("month", "Month"), ("window", "Window")], default="month"
                    ),
                ),
                (
                    "time_zone",
                    models.TextField(default="UTC", help_text="whose midnights begin months"),
                ),
                ("starts_at", models.DateTimeField(blank=True, help_text="of a window", null=True)),
                ("ends_at", models.DateTimeField(blank=True, help_text="of a window", null=True)),
                ("version", models.BigIntegerField(default=1)),
                ("created_at", models.DateTimeField(db_default=bettercompute.columns.ComputeNow())),
                (
                    "pool",
                    models.ForeignKey(
                        blank=True,
                        help_text="empty: over all pools",
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="pools.pool",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="budgets",
                        to="iam.tenant",
                    ),
                ),
            ],
            options={
                "db_table": "budgets",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("tenant", "name"), name="budget_name_once_per_tenant"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("gpu_milli_hours__gte", 0)), name="budget_not_negative"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("ends_at__isnull", True),
                                ("period", "month"),
                                ("starts_at__isnull", True),
                            ),
                            models.Q(
                                ("ends_at__gt", models.F("starts_at")),
                                ("ends_at__isnull", False),
                                ("period", "window"),
                                ("starts_at__isnull", False),
                            ),
                            _connector="OR",
                        ),
                        name="budget_period_whole",
                        violation_error_message="A month has no start and no end of its own; a"
                        " window needs both, the end behind the start.",
                    ),
                ],
            },
        ),
    ]
