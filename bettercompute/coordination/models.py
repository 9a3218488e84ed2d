"""Tables of coordination: leases, the work queue, heartbeats."""

from django.db import models

from bettercompute.columns import ComputeNow


class Lease(models.Model):
    """A claim on a role, with a time to live and an epoch that fences (C29-C34)."""

    name = models.TextField(primary_key=True)
    owner = models.TextField(help_text="random per process start, never a host name (C32)")
    epoch = models.BigIntegerField(help_text="grows with every takeover: the fence")
    expires_at = models.DateTimeField()
    acquired_at = models.DateTimeField(help_text="in charge since")
    note = models.TextField(default="", help_text="host and process, for people only")

    class Meta:
        db_table = "leases"
        constraints = [
            models.CheckConstraint(name="lease_epoch_positive", condition=models.Q(epoch__gt=0))
        ]

    def __str__(self) -> str:
        return self.name


class WorkItem(models.Model):
    """Something to look at: what is in the row says where, never what to do (C25)."""

    kind = models.TextField()
    key = models.TextField()
    shard = models.IntegerField()
    gen = models.BigIntegerField(default=1, help_text="grows with every wake-up")
    not_before = models.DateTimeField()
    claimed_until = models.DateTimeField(null=True)
    attempts = models.IntegerField(default=0, help_text="failures in a row")
    failing_since = models.DateTimeField(null=True, help_text="the first of these failures")
    last_error = models.TextField(default="")
    enqueued_at = models.DateTimeField(db_default=ComputeNow())
    origin = models.TextField(null=True, help_text="the trace and request that asked for it last")

    class Meta:
        db_table = "work_queue"
        constraints = [
            models.UniqueConstraint(name="work_queue_one_row_per_key", fields=["kind", "key"])
        ]
        indexes = [models.Index(name="work_queue_due", fields=["shard", "not_before"])]

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"


class Heartbeat(models.Model):
    """A process of the control plane that was able to write a moment ago (C38)."""

    process = models.TextField(primary_key=True, help_text="its owner id")
    role = models.TextField(help_text="web, gateway, worker")
    beaten_at = models.DateTimeField()
    started_at = models.DateTimeField(db_default=ComputeNow())

    class Meta:
        db_table = "heartbeats"

    def __str__(self) -> str:
        return f"{self.role} {self.process}"
