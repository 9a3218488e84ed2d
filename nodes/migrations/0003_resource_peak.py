"""The peak of what bookings claim over time (C12)."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).parent / "sql"


class Migration(migrations.Migration):
    dependencies = [("nodes", "0002_guards")]
    operations = [
        migrations.RunSQL(
            (SQL / "0003_resource_peak.sql").read_text(encoding="utf-8"),
            "DROP FUNCTION resource_peak(text, text, tstzrange)",
        )
    ]
