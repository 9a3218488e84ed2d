"""Quotas in a pool and by an offer, and charges that say in which pool and who holds them (C14)."""

from pathlib import Path

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

SQL = Path(__file__).parent / "sql"


class Migration(migrations.Migration):
    dependencies = [
        ("iam", "0002_find_changes_by_resource"),
        ("pools", "0001_initial"),
    ]
    operations = [
        migrations.RemoveConstraint(model_name="quotausage", name="quota_once_per_tenant"),
        migrations.AddField(
            model_name="quotacharge",
            name="account",
            field=models.ForeignKey(
                db_index=False,
                help_text="who holds it",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="quotacharge",
            name="pool",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="pools.pool",
            ),
        ),
        migrations.AddField(
            model_name="quotausage",
            name="offer",
            field=models.ForeignKey(
                help_text="whose limit this is",
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="pools.offer",
            ),
        ),
        migrations.AddField(
            model_name="quotausage",
            name="pool",
            field=models.ForeignKey(
                blank=True,
                help_text="empty: over all pools",
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="pools.pool",
            ),
        ),
        migrations.AlterField(
            model_name="offer",
            name="resources",
            field=models.JSONField(
                default=dict,
                help_text="{gpuMilli, vcpu, memoryGiB}: the most held by it; CPUs and memory"
                " beyond the GPUs' share",
            ),
        ),
        migrations.AddIndex(
            model_name="quotacharge",
            index=models.Index(fields=["tenant", "account"], name="quota_charges_of_member"),
        ),
        migrations.AddConstraint(
            model_name="quotausage",
            constraint=models.UniqueConstraint(
                fields=("tenant", "resource", "pool", "offer"),
                name="quota_once_per_scope",
                nulls_distinct=False,
            ),
        ),
        migrations.AddConstraint(
            model_name="quotausage",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("offer__isnull", True), ("pool__isnull", False), _connector="OR"
                ),
                name="quota_of_an_offer_is_in_its_pool",
            ),
        ),
        migrations.RunSQL(
            (SQL / "0002_known_charges.sql").read_text(encoding="utf-8"),
            "DELETE FROM quota_usage WHERE pool_id IS NOT NULL",
        ),
    ]
