"""Who of a pool waits for spot to give way: few, and looked for whenever capacity is freed."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("reservations", "0009_sharing")]

    operations = [
        migrations.AddIndex(
            model_name="reservation",
            index=models.Index(
                condition=models.Q(
                    ("conditions__contains", [{"type": "AwaitingPreemption"}]),
                    ("state", "placed"),
                ),
                fields=["pool"],
                name="reservation_behind_a_notice",
            ),
        ),
    ]
