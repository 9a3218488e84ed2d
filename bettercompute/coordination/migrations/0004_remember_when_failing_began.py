"""How long a row of the work queue has been failing: its age says how urgent it is (C26)."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("coordination", "0003_state_guard")]
    operations = [
        migrations.AddField(
            model_name="workitem",
            name="failing_since",
            field=models.DateTimeField(help_text="the first of these failures", null=True),
        )
    ]
