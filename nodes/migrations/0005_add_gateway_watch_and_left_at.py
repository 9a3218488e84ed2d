"""What liveness remembers of the gateways (C38); when an assignment left desired state (R35)."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("nodes", "0004_add_assignment_entered_at")]
    operations = [
        migrations.CreateModel(
            name="GatewayWatch",
            fields=[
                ("id", models.IntegerField(default=1, primary_key=True, serialize=False)),
                ("beat_at", models.DateTimeField(help_text="the last heartbeat of any gateway")),
                (
                    "recovered_at",
                    models.DateTimeField(help_text="the first heartbeat after the last gap"),
                ),
            ],
            options={"db_table": "gateway_watch"},
        ),
        migrations.AddConstraint(
            model_name="gatewaywatch",
            constraint=models.CheckConstraint(
                condition=models.Q(("id", 1)), name="gateway_watch_one_row"
            ),
        ),
        migrations.AddField(
            model_name="assignment",
            name="left_at",
            field=models.DateTimeField(
                help_text="when it left desired state; the unbind deadline runs from there",
                null=True,
            ),
        ),
    ]
