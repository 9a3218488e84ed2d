"""When a workload first used the devices of an assignment: for who would not come at all."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("nodes", "0010_add_maintenance_windows")]

    operations = [
        migrations.AddField(
            model_name="assignment",
            name="used_at",
            field=models.DateTimeField(
                help_text="when the agent first saw a workload use the devices", null=True
            ),
        ),
    ]
