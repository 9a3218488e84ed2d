"""Business time at this very instant, for what is counted behind a lock (C12)."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).parent / "sql"


class Migration(migrations.Migration):
    dependencies = [("nodes", "0011_add_first_use")]
    operations = [
        migrations.RunSQL(
            (SQL / "0012_instant.sql").read_text(encoding="utf-8"),
            "DROP FUNCTION compute_instant()",
        )
    ]
