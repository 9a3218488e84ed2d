"""Planned maintenance of nodes and pools, which new bookings keep clear of."""

from functools import partial
from pathlib import Path

import django.contrib.postgres.fields.ranges
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import bettercompute.ids

SQL = Path(__file__).parent / "sql"


class Migration(migrations.Migration):
    dependencies = [
        ("nodes", "0009_number_hardware"),
        ("pools", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]
    operations = [
        migrations.CreateModel(
            name="MaintenanceWindow",
            fields=[
                (
                    "id",
                    models.TextField(
                        default=partial(bettercompute.ids.new, "mnt"),
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("during", django.contrib.postgres.fields.ranges.DateTimeRangeField()),
                (
                    "reason",
                    models.TextField(help_text="what everybody reads who may book the pool"),
                ),
                ("announced_at", models.DateTimeField()),
                ("cancelled_at", models.DateTimeField(help_text="null: it stands", null=True)),
                (
                    "last_booking_id",
                    models.BigIntegerField(help_text="the newest booking when it was announced"),
                ),
                ("version", models.BigIntegerField(default=1)),
                (
                    "announced_by",
                    models.ForeignKey(
                        help_text="who",
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "cancelled_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "node",
                    models.ForeignKey(
                        help_text="null: the pool",
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="maintenance",
                        to="nodes.node",
                    ),
                ),
                (
                    "pool",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="pools.pool",
                    ),
                ),
            ],
            options={
                "db_table": "maintenance_windows",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("cancelled_at__isnull", True), ("cancelled_by__isnull", True)
                            ),
                            models.Q(
                                ("cancelled_at__isnull", False), ("cancelled_by__isnull", False)
                            ),
                            _connector="OR",
                        ),
                        name="maintenance_cancelled_by_somebody",
                    )
                ],
            },
        ),
        migrations.RunSQL(
            (SQL / "0010_maintenance_windows.sql").read_text(encoding="utf-8"),
            migrations.RunSQL.noop,
        ),
    ]
