"""A confirmation remembers whether it was denied at once, or approved and withdrawn (R36)."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("reservations", "0013_remember_who_asked_for_a_series")]

    operations = [
        migrations.AddField(
            model_name="confirmation",
            name="withdrawn",
            field=models.BooleanField(db_default=False, help_text="denied once approved"),
        ),
    ]
