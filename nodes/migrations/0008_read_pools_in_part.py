"""What a planner needs to look at a few nodes of many, whatever else there is (R15).

``node_ring`` puts a pool's nodes in an order that has nothing to do with them: from any point on,
it is a random sample. ``booking_of_device`` finds the one booking of a device that decides whether
it is free; it replaces the foreign key's own indexes, since it begins with their column.
"""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("nodes", "0007_watch_each_gateway")]
    operations = [
        migrations.RunSQL(
            "CREATE INDEX node_ring ON nodes (pool_id, hashtextextended(id, 0))"
            " WHERE state = 'ready' AND NOT cordoned",
            "DROP INDEX node_ring",
        ),
        migrations.RunSQL(
            "CREATE INDEX booking_of_device ON device_bookings (device_id, upper(during))"
            " INCLUDE (during)",
            "DROP INDEX booking_of_device",
        ),
        migrations.AlterField(
            model_name="devicebooking",
            name="device",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="bookings",
                to="nodes.device",
            ),
        ),
    ]
