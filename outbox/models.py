"""Tables of the outbox: events, how far each reader has come, webhooks and what they were sent."""

from functools import partial

from django.contrib.postgres.fields import ArrayField
from django.db import models

from bettercompute import ids
from bettercompute.columns import ComputeNow, CurrentTransaction, Xid8Field
from bettercompute.iam.models import Account, Tenant
from bettercompute.states import EndpointState


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
            # Lists: a tenant's, and an operator's of all tenants.
            models.Index(name="outbox_by_tenant", fields=["tenant_id", "time", "seq"]),
            models.Index(name="outbox_by_time", fields=["time", "seq"]),
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


class Lane(models.TextChoices):
    """Which of the senders' slots an endpoint uses: by what calling it last took (A6)."""

    NEW = "new"  # not called yet
    QUICK = "quick"
    SLOW = "slow"  # it took what it was sent, and kept us waiting
    FAILING = "failing"  # it took nothing of what it was sent


class DeliveryStatus(models.TextChoices):
    """What became of a delivery. A person may have any of them sent again."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


class WebhookEndpoint(models.Model):
    """Where a tenant, or for the whole platform an operator, wants to be told of events (A6)."""

    id = models.TextField(primary_key=True, default=partial(ids.new, "whk"))
    tenant = models.ForeignKey(
        Tenant, models.CASCADE, null=True, related_name="+", help_text="null: events of all tenants"
    )
    owner = models.ForeignKey(Account, models.CASCADE, related_name="+")
    url = models.TextField()
    description = models.TextField(default="")
    event_types = ArrayField(
        models.TextField(), default=list, help_text="exact, or reservation.*; none: all"
    )
    subject = models.TextField(
        default="", help_text="exact, or reservation/*; empty: whatever it is about"
    )
    state = models.TextField(default=EndpointState.ENABLED.value)
    version = models.BigIntegerField(default=1)
    created_at = models.DateTimeField(db_default=ComputeNow())
    enabled_at = models.DateTimeField(
        db_default=ComputeNow(), help_text="it is told of events from this instant on"
    )
    disabled_at = models.DateTimeField(null=True)
    disabled_reason = models.TextField(default="", help_text="request, gone or failing")
    secret = models.TextField(help_text="encrypted; see outbox/webhooks/vault.py")
    former_secrets = ArrayField(
        models.TextField(), default=list, help_text="encrypted, the newest first"
    )
    former_until = ArrayField(
        models.DateTimeField(), default=list, help_text="until when each of them signs too"
    )
    lane = models.TextField(choices=Lane.choices, default=Lane.NEW)
    failures = models.IntegerField(default=0, help_text="attempts in a row that failed")
    failing_since = models.DateTimeField(null=True)
    paused_until = models.DateTimeField(null=True, help_text="nothing is sent before")
    last_success_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "webhook_endpoints"
        constraints = [
            models.CheckConstraint(
                name="webhook_endpoint_state_known",
                condition=models.Q(state__in=[state.value for state in EndpointState]),
            ),
            models.CheckConstraint(
                name="webhook_endpoint_lane_known", condition=models.Q(lane__in=Lane.values)
            ),
            models.CheckConstraint(
                name="webhook_endpoint_says_why_disabled",
                condition=models.Q(state="disabled", disabled_at__isnull=False)
                & ~models.Q(disabled_reason="")
                | ~models.Q(state="disabled"),
            ),
        ]
        indexes = [
            models.Index(
                name="webhook_endpoint_enabled",
                fields=["tenant"],
                condition=models.Q(state="enabled"),
            ),
        ]

    def __str__(self) -> str:
        return self.url


class WebhookDelivery(models.Model):
    """One event for one endpoint: the very bytes that are sent, however often (case 30)."""

    id = models.TextField(primary_key=True)
    endpoint = models.ForeignKey(WebhookEndpoint, models.PROTECT, related_name="deliveries")
    event_id = models.TextField()
    event_type = models.TextField()
    subject = models.TextField()
    body = models.TextField()
    event_time = models.DateTimeField()
    origin = models.TextField(null=True, help_text="the trace and request the event came from")
    test = models.BooleanField(default=False, help_text="asked for by a person; tried once")
    status = models.TextField(choices=DeliveryStatus.choices, default=DeliveryStatus.PENDING)
    attempts = models.IntegerField(default=0, help_text="how often it was taken up to be sent")
    attempts_before = models.IntegerField(
        default=0, help_text="those before it was last sent again by request"
    )
    next_at = models.DateTimeField(db_default=ComputeNow())
    claimed_until = models.DateTimeField(null=True, help_text="a worker is sending it")
    created_at = models.DateTimeField(db_default=ComputeNow())
    finished_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "webhook_deliveries"
        verbose_name_plural = "webhook deliveries"
        constraints = [
            models.UniqueConstraint(name="webhook_delivery_once", fields=["endpoint", "event_id"]),
            models.CheckConstraint(
                name="webhook_delivery_status_known",
                condition=models.Q(status__in=DeliveryStatus.values),
            ),
            models.CheckConstraint(
                name="webhook_delivery_finished",
                condition=models.Q(status="pending", finished_at__isnull=True)
                | ~models.Q(status="pending") & models.Q(finished_at__isnull=False),
            ),
            models.CheckConstraint(
                name="webhook_delivery_claimed_only_pending",
                condition=models.Q(claimed_until__isnull=True) | models.Q(status="pending"),
            ),
        ]
        indexes = [
            models.Index(name="webhook_delivery_newest", fields=["endpoint", "id"]),
            # What is due, the oldest of an endpoint first.
            models.Index(
                name="webhook_delivery_pending",
                fields=["endpoint", "next_at"],
                condition=models.Q(status="pending"),
            ),
            models.Index(
                name="webhook_delivery_claimed",
                fields=["endpoint"],
                condition=models.Q(claimed_until__isnull=False),
            ),
            models.Index(name="webhook_delivery_by_age", fields=["created_at"]),
        ]

    def __str__(self) -> str:
        return f"{self.event_type} {self.subject}"


class WebhookAttempt(models.Model):
    """One time that a delivery was sent, and what came back."""

    delivery = models.ForeignKey(
        WebhookDelivery, models.CASCADE, related_name="tries", help_text="what was sent"
    )
    number = models.IntegerField()
    started_at = models.DateTimeField()
    request_headers = models.JSONField(default=dict, help_text="without the signature")
    response_status = models.IntegerField(null=True, help_text="null: there was no answer")
    response_head = models.TextField(default="", help_text="its first 4 KiB")
    latency_ms = models.IntegerField()
    error = models.TextField(default="", help_text="why it does not count as delivered")
    retry_at = models.DateTimeField(null=True, help_text="null: it is not tried again")

    class Meta:
        db_table = "webhook_attempts"
        constraints = [
            models.UniqueConstraint(name="webhook_attempt_once", fields=["delivery", "number"]),
        ]

    def __str__(self) -> str:
        return f"attempt {self.number}"
