"""No double booking, the atom rule, legal node states (C9, C10, C3)."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).parent / "sql"


class Migration(migrations.Migration):
    dependencies = [("nodes", "0001_initial"), ("coordination", "0003_state_guard")]
    operations = [
        migrations.RunSQL(
            (SQL / "0002_guards.sql").read_text(encoding="utf-8"),
            """
            DROP TRIGGER nodes_state_guard ON nodes;
            ALTER TABLE devices
                DROP CONSTRAINT device_milli_positive,
                DROP CONSTRAINT device_bookable_as_its_kind,
                DROP CONSTRAINT device_mode_of_gpus_only,
                DROP CONSTRAINT device_gpu_is_itself,
                DROP CONSTRAINT device_bookable_in_gpus_mode,
                DROP CONSTRAINT device_mode_key;
            DROP INDEX resource_booking_over_time;
            ALTER TABLE resource_bookings
                DROP CONSTRAINT resource_booking_half_open,
                DROP CONSTRAINT resource_booking_not_empty;
            ALTER TABLE device_bookings
                DROP CONSTRAINT booking_no_overlap,
                DROP CONSTRAINT booking_half_open,
                DROP CONSTRAINT booking_not_empty;
            """,
        )
    ]
