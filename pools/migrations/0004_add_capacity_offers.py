"""Capacity offers, each good for a minute."""

from functools import partial

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models

import bettercompute.ids


class Migration(migrations.Migration):
    dependencies = [
        ("iam", "0002_find_changes_by_resource"),
        ("pools", "0003_add_budgets"),
    ]

    operations = [
        migrations.CreateModel(
            name="CapacityOffer",
            fields=[
                (
                    "id",
                    models.TextField(
                        default=partial(bettercompute.ids.new, "cof"),
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "kinds",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(),
                        help_text="what it is best at: soonest, cheapest…",
                        size=None,
                    ),
                ),
                ("request", models.JSONField(help_text="what a create with its id asks for")),
                ("parts", models.JSONField(help_text="which devices of which nodes it takes")),
                ("made_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                (
                    "pool",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="pools.pool",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        help_text="whose it is",
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="iam.tenant",
                    ),
                ),
            ],
            options={
                "db_table": "capacity_offers",
                "indexes": [models.Index(fields=["expires_at"], name="capacity_offer_expiry")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("expires_at__gt", models.F("made_at"))),
                        name="capacity_offer_expires_later",
                    )
                ],
            },
        ),
    ]
