"""The trigger function that refuses illegal state changes (C3)."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).parent / "sql"


class Migration(migrations.Migration):
    dependencies = [("coordination", "0002_leases_and_work")]
    operations = [
        migrations.RunSQL(
            (SQL / "0003_state_guard.sql").read_text(encoding="utf-8"),
            """
            DROP FUNCTION refuse_illegal_transition();
            """,
        )
    ]
