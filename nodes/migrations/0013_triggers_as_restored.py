"""Two triggers, said so that a dump that is restored has them word for word (C21, C39)."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).parent / "sql"


class Migration(migrations.Migration):
    dependencies = [("nodes", "0012_count_from_this_instant")]
    operations = [
        migrations.RunSQL(
            (SQL / "0013_triggers_as_restored.sql").read_text(encoding="utf-8"),
            # What was before does the same.
            migrations.RunSQL.noop,
        ),
    ]
