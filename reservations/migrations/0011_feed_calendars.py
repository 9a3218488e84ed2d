"""Calendar feeds, and the index that finds a pool's bookings by their end."""

from functools import partial

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import bettercompute.columns
import bettercompute.ids


class Migration(migrations.Migration):
    dependencies = [
        ("iam", "0002_find_changes_by_resource"),
        ("pools", "0003_add_budgets"),
        ("reservations", "0010_index_behind_a_notice"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="CalendarFeed",
            fields=[
                (
                    "id",
                    models.TextField(
                        default=partial(bettercompute.ids.new, "cal"),
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("secret_hash", models.TextField()),
                ("created_at", models.DateTimeField(db_default=bettercompute.columns.ComputeNow())),
                ("last_read_at", models.DateTimeField(null=True)),
                (
                    "window_at",
                    models.DateTimeField(help_text="since when reads are counted", null=True),
                ),
                ("reads", models.IntegerField(default=0)),
                ("revoked_at", models.DateTimeField(null=True)),
                (
                    "account",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "pool",
                    models.ForeignKey(
                        help_text="null: one's reservations",
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
                        related_name="+",
                        to="iam.tenant",
                    ),
                ),
            ],
            options={"db_table": "calendar_feeds"},
        ),
        migrations.AddIndex(
            model_name="reservation",
            index=models.Index(
                condition=models.Q(("placed_at__isnull", False)),
                fields=["pool", "ends_at"],
                name="reservation_in_pool",
            ),
        ),
    ]
