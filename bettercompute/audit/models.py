"""Tables of the audit. Rows are only ever added; triggers refuse the rest (``migrations/sql``)."""

from functools import partial

from django.contrib.postgres.fields import ArrayField
from django.db import models

from bettercompute import ids
from bettercompute.audit.outcomes import Outcome
from bettercompute.columns import Int8MultirangeField


class Entry(models.Model):
    """Who did what, from where, to which object, and what decided: one act's end.

    Texts as they were then, and no foreign keys: what is renamed or deleted later stays said.
    """

    seq = models.BigAutoField(primary_key=True)
    id = models.TextField(unique=True, default=partial(ids.new, "aud"))
    at = models.DateTimeField()
    tenant_id = models.TextField(help_text="whose matter it is; empty: the platform's")
    account_id = models.TextField()
    username = models.TextField()
    operator = models.BooleanField(help_text="whether who acted runs the platform")
    role = models.TextField(help_text="at the tenant it acted for")
    via = models.TextField(help_text="token, session, command, or none where nobody was known")
    token_id = models.TextField()
    token_name = models.TextField()
    address = models.TextField()
    user_agent = models.TextField()
    request_id = models.TextField()
    action = models.TextField()
    object_kind = models.TextField()
    object_id = models.TextField()
    outcome = models.TextField(choices=Outcome.choices)
    code = models.TextField(help_text="of the error; empty where it was done")
    policies = ArrayField(models.TextField(), help_text="that decided")
    detail = models.JSONField()
    key_id = models.TextField(help_text="which key the seal of this entry was made with")
    mac = models.BinaryField()

    class Meta:
        db_table = "audit_entries"
        verbose_name_plural = "entries"
        constraints = [
            models.CheckConstraint(
                name="audit_outcome_known", condition=models.Q(outcome__in=Outcome.values)
            ),
            models.CheckConstraint(
                name="audit_code_of_what_was_not_done",
                condition=models.Q(outcome=Outcome.ALLOWED, code="")
                | (~models.Q(outcome=Outcome.ALLOWED) & ~models.Q(code="")),
            ),
        ]
        indexes = [
            models.Index(name="audit_by_time", fields=["at", "seq"]),
            models.Index(name="audit_by_tenant", fields=["tenant_id", "at", "seq"]),
            models.Index(name="audit_by_account", fields=["account_id", "at", "seq"]),
            models.Index(name="audit_by_object", fields=["object_id", "at", "seq"]),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.object_kind}/{self.object_id}"


class Seal(models.Model):
    """That these entries were there, in a chain: each seal covers the one before (``sealing``)."""

    number = models.BigIntegerField(primary_key=True)
    sealed_at = models.DateTimeField()
    members = Int8MultirangeField(help_text="the sequence numbers of its entries")
    count = models.IntegerField()
    #: behind everything that it or an earlier one covers
    upto = models.BigIntegerField()
    root = models.BinaryField(help_text="of its entries")
    key_id = models.TextField()
    digest = models.BinaryField(help_text="of all this, and of the seal before")
    removed_at = models.DateTimeField(null=True, help_text="when its entries had grown old")

    class Meta:
        db_table = "audit_seals"

    def __str__(self) -> str:
        return f"seal {self.number}"
