"""Who may use a reservation beside its owner; and what waits is pending."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import bettercompute.columns


class Migration(migrations.Migration):
    dependencies = [
        ("reservations", "0008_find_by_end"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ReservationUser",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("added_at", models.DateTimeField(db_default=bettercompute.columns.ComputeNow())),
                (
                    "account",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "reservation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="users",
                        to="reservations.reservation",
                    ),
                ),
            ],
            options={
                "db_table": "reservation_users",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("reservation", "account"), name="reservation_user_once"
                    )
                ],
            },
        ),
        migrations.AddConstraint(
            model_name="reservation",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("waiting__isnull", True), ("state", "pending"), _connector="OR"
                ),
                name="reservation_waits_only_pending",
            ),
        ),
    ]
