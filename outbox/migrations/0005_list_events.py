"""Events are listed by their time, a tenant's and the platform's."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("outbox", "0004_webhooks")]
    operations = [
        migrations.AddIndex(
            model_name="event",
            index=models.Index(fields=["tenant_id", "time", "seq"], name="outbox_by_tenant"),
        ),
        migrations.AddIndex(
            model_name="event",
            index=models.Index(fields=["time", "seq"], name="outbox_by_time"),
        ),
    ]
