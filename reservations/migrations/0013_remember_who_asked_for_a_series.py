"""A series remembers the agent that asked for it, and what its owner was asked (R36)."""

from pathlib import Path

from django.db import migrations, models

REMEMBER = (Path(__file__).parent / "sql" / "0013_remember_who_asked.sql").read_text(
    encoding="utf-8"
)


class Migration(migrations.Migration):
    dependencies = [("reservations", "0012_ask_a_person")]

    operations = [
        migrations.AddField(
            model_name="series",
            name="agent",
            field=models.TextField(
                db_default="",
                default="",
                help_text="that asked for it, if one did",
            ),
        ),
        migrations.AddField(
            model_name="series",
            name="confirmation_id",
            field=models.TextField(
                db_default="",
                default="",
                help_text="that allowed it",
            ),
        ),
        migrations.RunSQL(REMEMBER, migrations.RunSQL.noop),
    ]
