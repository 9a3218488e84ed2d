"""Spot of a pool, by an index: a create in a pool without any pays one probe for it (R19)."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("reservations", "0006_repeat_in_series")]

    operations = [
        migrations.AddIndex(
            model_name="reservation",
            index=models.Index(
                condition=models.Q(("spot", True), ("state__in", ["placed", "binding", "active"])),
                fields=["pool"],
                name="reservation_spot",
            ),
        ),
    ]
