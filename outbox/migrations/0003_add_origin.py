"""Which request an event came from: its trace goes on in what is sent."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("outbox", "0002_remember_cluster")]
    operations = [
        migrations.AddField(
            model_name="event",
            name="origin",
            field=models.TextField(help_text="the trace and request it came from", null=True),
        )
    ]
