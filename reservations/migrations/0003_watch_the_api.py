"""What is remembered of the API's outages: they stop the leases (C38)."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("reservations", "0002_guards")]
    operations = [
        migrations.CreateModel(
            name="ApiWatch",
            fields=[
                ("id", models.IntegerField(default=1, primary_key=True, serialize=False)),
                ("beat_at", models.DateTimeField(help_text="the last beat of any web process")),
            ],
            options={"db_table": "api_watch"},
        ),
        migrations.AddConstraint(
            model_name="apiwatch",
            constraint=models.CheckConstraint(
                condition=models.Q(("id", 1)), name="api_watch_one_row"
            ),
        ),
        migrations.CreateModel(
            name="ApiOutage",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("began_at", models.DateTimeField(help_text="the last beat before it")),
                ("ended_at", models.DateTimeField(help_text="the first beat after it")),
                (
                    "applied_at",
                    models.DateTimeField(
                        help_text="when its length was added to the leases", null=True
                    ),
                ),
            ],
            options={
                "db_table": "api_outages",
                "indexes": [
                    models.Index(
                        condition=models.Q(("applied_at__isnull", True)),
                        fields=["began_at"],
                        name="api_outage_unapplied",
                    )
                ],
            },
        ),
        migrations.AddConstraint(
            model_name="apioutage",
            constraint=models.CheckConstraint(
                condition=models.Q(("ended_at__gt", models.F("began_at"))),
                name="api_outage_has_length",
            ),
        ),
    ]
