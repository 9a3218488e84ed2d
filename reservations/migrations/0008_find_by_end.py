"""What a tenant had in a span of time is found by its end (R39)."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("reservations", "0007_index_spot"),
    ]
    operations = [
        migrations.AddIndex(
            model_name="reservation",
            index=models.Index(
                condition=models.Q(("placed_at__isnull", False)),
                fields=["tenant", "ends_at"],
                name="reservation_had",
            ),
        ),
    ]
