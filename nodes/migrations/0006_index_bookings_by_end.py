"""Bookings by their end: a planner's read skips all that ended before its window."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("nodes", "0005_add_gateway_watch_and_left_at")]
    operations = [
        migrations.RunSQL(
            "CREATE INDEX booking_by_end ON device_bookings (upper(during))",
            "DROP INDEX booking_by_end",
        )
    ]
