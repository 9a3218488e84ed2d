"""The audit: entries, the seals over them, and what keeps both as they were written."""

import functools
from pathlib import Path

import django.contrib.postgres.fields
from django.db import migrations, models

import bettercompute.columns
import bettercompute.ids

SQL = Path(__file__).parent / "sql"


class Migration(migrations.Migration):
    initial = True

    dependencies = [("coordination", "0001_clock")]

    operations = [
        migrations.CreateModel(
            name="Seal",
            fields=[
                ("number", models.BigIntegerField(primary_key=True, serialize=False)),
                ("sealed_at", models.DateTimeField()),
                (
                    "members",
                    bettercompute.columns.Int8MultirangeField(
                        help_text="the sequence numbers of its entries"
                    ),
                ),
                ("count", models.IntegerField()),
                ("upto", models.BigIntegerField()),
                ("root", models.BinaryField(help_text="of its entries")),
                ("key_id", models.TextField()),
                ("digest", models.BinaryField(help_text="of all this, and of the seal before")),
                (
                    "removed_at",
                    models.DateTimeField(help_text="when its entries had grown old", null=True),
                ),
            ],
            options={
                "db_table": "audit_seals",
            },
        ),
        migrations.CreateModel(
            name="Entry",
            fields=[
                ("seq", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "id",
                    models.TextField(
                        default=functools.partial(bettercompute.ids.new, *("aud",)), unique=True
                    ),
                ),
                ("at", models.DateTimeField()),
                (
                    "tenant_id",
                    models.TextField(help_text="whose matter it is; empty: the platform's"),
                ),
                ("account_id", models.TextField()),
                ("username", models.TextField()),
                ("operator", models.BooleanField(help_text="whether who acted runs the platform")),
                ("role", models.TextField(help_text="at the tenant it acted for")),
                (
                    "via",
                    models.TextField(
                        help_text="token, session, command, or none where nobody was known"
                    ),
                ),
                ("token_id", models.TextField()),
                ("token_name", models.TextField()),
                ("address", models.TextField()),
                ("user_agent", models.TextField()),
                ("request_id", models.TextField()),
                ("action", models.TextField()),
                ("object_kind", models.TextField()),
                ("object_id", models.TextField()),
                (
                    "outcome",
                    models.TextField(
                        choices=[
                            ("allowed", "done"),
                            ("denied", "refused: who asked may not"),
                            ("failed", "did not happen"),
                        ]
                    ),
                ),
                ("code", models.TextField(help_text="of the error; empty where it was done")),
                (
                    "policies",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(), help_text="that decided", size=None
                    ),
                ),
                ("detail", models.JSONField()),
                (
                    "key_id",
                    models.TextField(help_text="which key the seal of this entry was made with"),
                ),
                ("mac", models.BinaryField()),
            ],
            options={
                "verbose_name_plural": "entries",
                "db_table": "audit_entries",
                "indexes": [
                    models.Index(fields=["at", "seq"], name="audit_by_time"),
                    models.Index(fields=["tenant_id", "at", "seq"], name="audit_by_tenant"),
                    models.Index(fields=["account_id", "at", "seq"], name="audit_by_account"),
                    models.Index(fields=["object_id", "at", "seq"], name="audit_by_object"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("outcome__in", ["allowed", "denied", "failed"])),
                        name="audit_outcome_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("code", ""), ("outcome", "allowed")),
                            models.Q(
                                models.Q(("outcome", "allowed"), _negated=True),
                                models.Q(("code", ""), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="audit_code_of_what_was_not_done",
                    ),
                ],
            },
        ),
        migrations.RunSQL(
            (SQL / "0001_append_only.sql").read_text(encoding="utf-8"),
            "DROP FUNCTION audit_forget(double precision);DROP FUNCTION audit_refuse() CASCADE;",
        ),
    ]
