"""Which request asked for a piece of work: its trace goes on in the worker."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("coordination", "0004_remember_when_failing_began")]
    operations = [
        migrations.AddField(
            model_name="workitem",
            name="origin",
            field=models.TextField(
                help_text="the trace and request that asked for it last", null=True
            ),
        )
    ]
