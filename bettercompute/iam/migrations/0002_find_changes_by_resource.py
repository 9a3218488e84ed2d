"""Retention and the self-check look for the later entries of a resource (C23, C24)."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("iam", "0001_initial")]
    operations = [
        migrations.AddIndex(
            model_name="authzchange",
            index=models.Index(
                fields=["resource_id", "txid", "seq"], name="authz_changes_by_resource"
            ),
        )
    ]
