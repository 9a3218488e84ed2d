"""Tables of the outbox: events, and how far each reader has come."""

from functools import partial

from django.db import models

from bettercompute import ids
from bettercompute.columns import ComputeNow, CurrentTransaction, Xid8Field


class Event(models.Model):
    """Something that happened, written in the transaction that made it happen (C20)."""

    seq = models.BigAutoField(primary_key=True)
    id = models.TextField(unique=True, default=partial(ids.new, "evt"))
    txid = Xid8Field(db_default=CurrentTransaction())
    type = models.TextField()
    tenant_id = models.TextField()
    subject = models.TextField(help_text="what it is about: reservation/rsv_…")
    data = models.JSONField(default=dict)
    time = models.DateTimeField(db_default=ComputeNow())
    origin = models.TextField(null=True, help_text="the trace and request it came from")

    class Meta:
        db_table = "outbox"
        indexes = [
            models.Index(name="outbox_in_order", fields=["txid", "seq"]),
            models.Index(name="outbox_by_subject", fields=["subject", "seq"]),
        ]

    def __str__(self) -> str:
        return f"{self.type} {self.subject}"


class Cursor(models.Model):
    """How far a sink has read (C22)."""

    sink = models.TextField(primary_key=True)
    txid = Xid8Field(default=0)
    seq = models.BigIntegerField(default=0)
    moved_at = models.DateTimeField(db_default=ComputeNow())

    class Meta:
        db_table = "outbox_cursors"

    def __str__(self) -> str:
        return self.sink


class Cluster(models.Model):
    """The database cluster whose transaction ids the rows carry (C21)."""

    id = models.IntegerField(primary_key=True, default=1)
    system_identifier = models.TextField()

    class Meta:
        db_table = "outbox_cluster"
        constraints = [
            models.CheckConstraint(name="outbox_cluster_one_row", condition=models.Q(id=1))
        ]

    def __str__(self) -> str:
        return self.system_identifier
