"""Series: reservations that repeat (case 20)."""

from pathlib import Path

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import bettercompute.columns
import bettercompute.states

SQL = Path(__file__).parent / "sql"


class Migration(migrations.Migration):
    dependencies = [
        ("iam", "0002_find_changes_by_resource"),
        ("pools", "0001_initial"),
        ("reservations", "0005_waiting"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="reservation",
            name="occurrence_at",
            field=models.DateTimeField(help_text="when its series has it begin", null=True),
        ),
        migrations.AddField(
            model_name="reservation",
            name="retry_at",
            field=models.DateTimeField(
                help_text="when an occurrence that could not be booked is tried again", null=True
            ),
        ),
        migrations.CreateModel(
            name="Series",
            fields=[
                (
                    "id",
                    models.TextField(
                        help_text="from its first occurrence's", primary_key=True, serialize=False
                    ),
                ),
                ("state", models.TextField(default=bettercompute.states.SeriesState["ACTIVE"])),
                (
                    "request",
                    models.JSONField(help_text="validated and normalised; of the first occurrence"),
                ),
                ("rule", models.TextField(help_text="RFC 5545's RRULE, as far as it is allowed")),
                ("time_zone", models.TextField()),
                (
                    "first_local",
                    models.TextField(help_text="what clocks in that zone show as the first begins"),
                ),
                (
                    "decision",
                    models.JSONField(default=dict, help_text="{effect, policies}: on the first"),
                ),
                (
                    "conditions",
                    models.JSONField(
                        default=list, help_text="[{type, status, reason, message, since}]"
                    ),
                ),
                (
                    "next_at",
                    models.DateTimeField(help_text="the first occurrence without a row", null=True),
                ),
                (
                    "cut_at",
                    models.DateTimeField(help_text="no occurrence begins then or later", null=True),
                ),
                ("version", models.BigIntegerField(default=1)),
                ("created_at", models.DateTimeField(db_default=bettercompute.columns.ComputeNow())),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
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
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="iam.tenant",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "series",
                "db_table": "reservation_series",
            },
        ),
        migrations.AddField(
            model_name="reservation",
            name="series",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="occurrences",
                to="reservations.series",
            ),
        ),
        migrations.AddConstraint(
            model_name="reservation",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("occurrence_at__isnull", True), ("series__isnull", True)),
                    models.Q(("occurrence_at__isnull", False), ("series__isnull", False)),
                    _connector="OR",
                ),
                name="reservation_occurrence_whole",
            ),
        ),
        migrations.AddConstraint(
            model_name="reservation",
            constraint=models.UniqueConstraint(
                condition=models.Q(("series__isnull", False)),
                fields=("series", "occurrence_at"),
                name="reservation_occurrence_once",
            ),
        ),
        migrations.AddIndex(
            model_name="series",
            index=models.Index(fields=["tenant", "-created_at", "-id"], name="series_newest"),
        ),
        migrations.AddIndex(
            model_name="series",
            index=models.Index(
                condition=models.Q(("state", "active")), fields=["id"], name="series_active"
            ),
        ),
        migrations.RunSQL(
            (SQL / "0006_guard_series.sql").read_text(encoding="utf-8"),
            "DROP TRIGGER reservation_series_state_guard ON reservation_series;",
        ),
    ]
