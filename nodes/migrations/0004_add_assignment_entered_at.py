"""When an assignment entered its node's desired state (R35)."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("nodes", "0003_resource_peak")]
    operations = [
        migrations.AddField(
            model_name="assignment",
            name="entered_at",
            field=models.DateTimeField(
                help_text="when it entered the node's desired state; null: never (R35)", null=True
            ),
        )
    ]
