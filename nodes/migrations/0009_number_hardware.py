"""A number for each pool's hardware, for what web processes keep of it (R30, R38)."""

from pathlib import Path

from django.db import migrations, models

SQL = Path(__file__).parent / "sql"


class Migration(migrations.Migration):
    dependencies = [("nodes", "0008_read_pools_in_part")]
    operations = [
        migrations.CreateModel(
            name="PoolHardware",
            fields=[
                ("pool_id", models.TextField(primary_key=True, serialize=False)),
                (
                    "generation",
                    models.BigIntegerField(help_text="the transaction that changed it last"),
                ),
            ],
            options={"db_table": "pool_hardware"},
        ),
        migrations.RunSQL(
            (SQL / "0009_pool_hardware.sql").read_text(encoding="utf-8"),
            (SQL / "0009_pool_hardware_reverse.sql").read_text(encoding="utf-8"),
        ),
    ]
