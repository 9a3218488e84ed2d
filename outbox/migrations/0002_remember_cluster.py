"""Remember whose transaction ids the rows carry, from the first one on (C21)."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("outbox", "0001_initial")]
    operations = [
        migrations.RunSQL(
            """
            INSERT INTO outbox_cluster (id, system_identifier)
            SELECT 1, system_identifier::text FROM pg_control_system()
            ON CONFLICT (id) DO NOTHING;
            """,
            migrations.RunSQL.noop,
        )
    ]
