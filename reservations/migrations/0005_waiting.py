"""What the last try of a pending reservation found (R24)."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("reservations", "0004_extensions")]

    operations = [
        migrations.AddField(
            model_name="reservation",
            name="waiting",
            field=models.JSONField(
                help_text="what the last try found, while it is pending; see trials", null=True
            ),
        ),
    ]
