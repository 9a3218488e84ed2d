"""Several former secrets of a webhook sign, each until its own overlap has passed."""

from pathlib import Path

from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models

SQL = Path(__file__).parent / "sql"


class Migration(migrations.Migration):
    dependencies = [("outbox", "0006_failing_lane")]
    operations = [
        migrations.AddField(
            model_name="webhookendpoint",
            name="former_secrets",
            field=ArrayField(
                base_field=models.TextField(),
                default=list,
                help_text="encrypted, the newest first",
                size=None,
            ),
        ),
        migrations.AddField(
            model_name="webhookendpoint",
            name="former_until",
            field=ArrayField(
                base_field=models.DateTimeField(),
                default=list,
                help_text="until when each of them signs too",
                size=None,
            ),
        ),
        migrations.RunSQL(
            (SQL / "0007_keep_former_secrets.sql").read_text(encoding="utf-8"),
            (SQL / "0007_keep_former_secrets_reverse.sql").read_text(encoding="utf-8"),
        ),
        migrations.RemoveField(model_name="webhookendpoint", name="previous_secret"),
        migrations.RemoveField(model_name="webhookendpoint", name="previous_until"),
        migrations.RunSQL(
            (SQL / "0007_guard_former_secrets.sql").read_text(encoding="utf-8"),
            """
            ALTER TABLE webhook_endpoints
                DROP CONSTRAINT webhook_endpoint_former_secrets_end,
                DROP CONSTRAINT webhook_endpoint_deleted_keeps_no_secret;
            """,
        ),
    ]
