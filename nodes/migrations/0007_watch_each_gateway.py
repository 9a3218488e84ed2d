"""Since when each gateway beats without a gap, and what follows for its nodes (C38)."""

from pathlib import Path

from django.db import migrations, models

SQL = Path(__file__).parent / "sql"


class Migration(migrations.Migration):
    dependencies = [
        ("nodes", "0006_index_bookings_by_end"),
        ("coordination", "0002_leases_and_work"),
    ]
    operations = [
        # What it remembered is rebuilt by the gateways' next beats.
        migrations.DeleteModel(name="GatewayWatch"),
        migrations.CreateModel(
            name="GatewayWatch",
            fields=[
                ("gateway_id", models.TextField(primary_key=True, serialize=False)),
                (
                    "beat_at",
                    models.DateTimeField(help_text="the last beat; what it knew then is flushed"),
                ),
                (
                    "up_since",
                    models.DateTimeField(help_text="the first beat after the last gap"),
                ),
            ],
            options={"db_table": "gateway_watch"},
        ),
        migrations.RunSQL(
            (SQL / "0007_node_hearing.sql").read_text(encoding="utf-8"),
            "DROP FUNCTION node_hearing()",
        ),
    ]
