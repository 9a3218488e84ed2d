"""The first migration: compute_now() and the simulated clock (C4, C5)."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).parent / "sql"


class Migration(migrations.Migration):
    initial = True
    dependencies = []
    operations = [
        migrations.RunSQL(
            (SQL / "0001_clock.sql").read_text(encoding="utf-8"),
            "DROP FUNCTION compute_now(); DROP TABLE compute_sim_clock;",
        )
    ]
