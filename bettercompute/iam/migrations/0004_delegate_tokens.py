"""A token may be an agent's, and hold actions for the confirmation of its person (R36)."""

import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("iam", "0003_limit_requests_of_a_token")]
    operations = [
        migrations.AddField(
            model_name="apitoken",
            name="agent",
            field=models.TextField(
                db_default="",
                default="",
                help_text="who uses it for its account; empty: the person",
            ),
        ),
        migrations.AddField(
            model_name="apitoken",
            name="confirm",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.TextField(),
                db_default=[],
                default=list,
                help_text="actions that wait for the person (R36)",
                size=None,
            ),
        ),
        migrations.AddConstraint(
            model_name="apitoken",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("confirm", []), models.Q(("agent", ""), _negated=True), _connector="OR"
                ),
                name="api_token_holds_only_for_agents",
            ),
        ),
    ]
