"""Legal states of reservations and allocations (C3)."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).parent / "sql"


class Migration(migrations.Migration):
    dependencies = [("reservations", "0001_initial"), ("coordination", "0003_state_guard")]
    operations = [
        migrations.RunSQL(
            (SQL / "0002_guards.sql").read_text(encoding="utf-8"),
            """
            DROP TRIGGER allocations_state_guard ON allocations;
            DROP TRIGGER reservations_state_guard ON reservations;
            """,
        )
    ]
