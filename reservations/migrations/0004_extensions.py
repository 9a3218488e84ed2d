"""Extensions: one under way at a time, and what each key has done (R33, R34)."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("reservations", "0003_watch_the_api"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ExtendHold",
            fields=[
                (
                    "reservation",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="reservations.reservation",
                    ),
                ),
                ("hold", models.TextField(help_text="a nonce of the server")),
                ("taken_at", models.DateTimeField()),
            ],
            options={
                "db_table": "extend_holds",
            },
        ),
        migrations.CreateModel(
            name="Extension",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("idempotency_key", models.TextField()),
                ("request_hash", models.TextField()),
                ("ends_before", models.DateTimeField()),
                ("ends_after", models.DateTimeField()),
                ("made_at", models.DateTimeField()),
                (
                    "account",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "reservation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="extensions",
                        to="reservations.reservation",
                    ),
                ),
            ],
            options={
                "db_table": "extensions",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("reservation", "account", "idempotency_key"),
                        name="extension_once_per_key",
                    )
                ],
            },
        ),
    ]
