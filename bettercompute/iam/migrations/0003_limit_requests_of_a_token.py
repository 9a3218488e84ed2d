"""A token may have a limit of requests of its own (A11)."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("iam", "0002_find_changes_by_resource")]
    operations = [
        migrations.AddField(
            model_name="apitoken",
            name="requests_per_second",
            field=models.PositiveIntegerField(
                help_text="empty: as for everybody; 0: no limit", null=True
            ),
        )
    ]
