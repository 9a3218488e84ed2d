"""Tables of reservations: the claim, and its part on each node."""

from datetime import datetime, timedelta
from functools import partial

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models

from bettercompute import ids
from bettercompute.columns import ComputeNow
from bettercompute.iam.models import ApiToken, Tenant
from bettercompute.states import AllocationState, ConfirmationState, ReservationState, SeriesState
from pools.models import Pool


class Series(models.Model):
    """A reservation that repeats; its occurrences are reservations of their own."""

    id = models.TextField(primary_key=True, help_text="from its first occurrence's")
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="+")
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="+")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    state = models.TextField(default=SeriesState.ACTIVE)
    request = models.JSONField(help_text="validated and normalised; of the first occurrence")
    rule = models.TextField(help_text="RFC 5545's RRULE, as far as it is allowed")
    time_zone = models.TextField()
    first_local = models.TextField(help_text="what clocks in that zone show as the first begins")
    decision = models.JSONField(default=dict, help_text="{effect, policies}: on the first")
    conditions = models.JSONField(
        default=list, help_text="[{type, status, reason, message, since}]"
    )
    next_at = models.DateTimeField(null=True, help_text="the first occurrence without a row")
    cut_at = models.DateTimeField(null=True, help_text="no occurrence begins then or later")
    agent = models.TextField(default="", db_default="", help_text="that asked for it, if one did")
    confirmation_id = models.TextField(default="", db_default="", help_text="that allowed it")
    version = models.BigIntegerField(default=1)
    created_at = models.DateTimeField(db_default=ComputeNow())
    ended_at = models.DateTimeField(null=True)

    #: ``compute_now()`` of the transaction that locked the row; not a column.
    read_at: datetime

    class Meta:
        db_table = "reservation_series"
        verbose_name_plural = "series"
        indexes = [
            models.Index(name="series_newest", fields=["tenant", "-created_at", "-id"]),
            models.Index(name="series_active", fields=["id"], condition=models.Q(state="active")),
        ]

    def __str__(self) -> str:
        return self.id


class Reservation(models.Model):
    """A tenant's claim on devices of one pool for a window (R1)."""

    id = models.TextField(primary_key=True, help_text="from tenant, identity and key (R6)")
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="+")
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="+")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    state = models.TextField(default=ReservationState.DRAFT)
    reason = models.TextField(default="", help_text="why it ended: release, expired, lease-lapsed…")
    idempotency_key = models.TextField()
    request = models.JSONField(help_text="validated and normalised (R5)")
    request_hash = models.TextField(help_text="SHA-256 of it, without wait and key (R7)")
    host_share = models.JSONField(default=dict, help_text="resolved when drafted (R30)")
    decision = models.JSONField(default=dict, help_text="{effect, policies}: what decided")
    duration_ms = models.BigIntegerField()
    requested_start = models.DateTimeField(null=True, help_text="null: at placement")
    starts_at = models.DateTimeField(null=True, help_text="during.start")
    ends_at = models.DateTimeField(null=True, help_text="during.end")
    lease_seconds = models.BigIntegerField(null=True)
    lease_until = models.DateTimeField(null=True)
    gpu_milli = models.BigIntegerField(default=0)
    spot = models.BooleanField(default=False)
    priority = models.IntegerField(default=0)
    labels = models.JSONField(default=dict)
    conditions = models.JSONField(
        default=list, help_text="[{type, status, reason, message, since}]"
    )
    waiting = models.JSONField(
        null=True, help_text="what the last try found, while it is pending; see trials"
    )
    placements_failed = models.IntegerField(default=0, help_text="the third fails it (R26)")
    bind_deadline = models.DateTimeField(null=True)
    agent = models.TextField(
        default="", db_default="", help_text="who asked for it for its owner; empty: the owner"
    )
    confirmation_id = models.TextField(default="", help_text="what its owner was asked (R36)")
    confirm_until = models.DateTimeField(null=True)
    version = models.BigIntegerField(default=1)
    created_at = models.DateTimeField(db_default=ComputeNow())
    placed_at = models.DateTimeField(null=True)
    bound_at = models.DateTimeField(null=True, help_text="became active")
    ended_at = models.DateTimeField(null=True, help_text="reached a terminal state")
    series = models.ForeignKey(
        Series, models.PROTECT, null=True, db_index=False, related_name="occurrences"
    )
    occurrence_at = models.DateTimeField(null=True, help_text="when its series has it begin")
    retry_at = models.DateTimeField(
        null=True, help_text="when an occurrence that could not be booked is tried again"
    )

    #: ``compute_now()`` of the transaction that locked the row; not a column.
    read_at: datetime
    #: who may use it beside its owner and can act for its tenant now; read with the row.
    shared_with: list[str]

    class Meta:
        db_table = "reservations"
        constraints = [
            models.CheckConstraint(
                name="reservation_window_whole",
                condition=models.Q(starts_at__isnull=True, ends_at__isnull=True)
                | models.Q(ends_at__gte=models.F("starts_at")),
            ),
            models.CheckConstraint(
                name="reservation_duration_positive", condition=models.Q(duration_ms__gt=0)
            ),
            models.CheckConstraint(
                name="reservation_occurrence_whole",
                condition=models.Q(series__isnull=True, occurrence_at__isnull=True)
                | models.Q(series__isnull=False, occurrence_at__isnull=False),
            ),
            models.UniqueConstraint(
                name="reservation_occurrence_once",
                fields=["series", "occurrence_at"],
                condition=models.Q(series__isnull=False),
            ),
            models.CheckConstraint(
                name="reservation_waits_only_pending",
                condition=models.Q(waiting__isnull=True) | models.Q(state="pending"),
            ),
        ]
        indexes = [
            models.Index(name="reservation_newest", fields=["tenant", "-created_at", "-id"]),
            models.Index(name="reservation_mine", fields=["tenant", "owner", "-created_at", "-id"]),
            # What a tenant had in a span of time (R39).
            models.Index(
                name="reservation_had",
                fields=["tenant", "ends_at"],
                condition=models.Q(placed_at__isnull=False),
            ),
            models.Index(
                name="reservation_in_pool",
                fields=["pool", "ends_at"],
                condition=models.Q(placed_at__isnull=False),
            ),
            models.Index(
                name="reservation_pending",
                fields=["pool", "-priority", "created_at"],
                condition=models.Q(state="pending"),
            ),
            models.Index(
                name="reservation_spot",
                fields=["pool"],
                condition=models.Q(spot=True, state__in=["placed", "binding", "active"]),
            ),
            models.Index(
                name="reservation_behind_a_notice",
                fields=["pool"],
                condition=models.Q(
                    state="placed", conditions__contains=[{"type": "AwaitingPreemption"}]
                ),
            ),
            models.Index(
                name="reservation_live",
                fields=["id"],
                condition=models.Q(
                    state__in=[
                        "draft",
                        "awaiting-confirmation",
                        "pending",
                        "placed",
                        "binding",
                        "active",
                    ]
                ),
            ),
        ]

    def __str__(self) -> str:
        return self.id


class ReservationUser(models.Model):
    """A member of the tenant who may use a reservation, beside its owner."""

    reservation = models.ForeignKey(Reservation, models.CASCADE, related_name="users")
    account = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    added_at = models.DateTimeField(db_default=ComputeNow())

    class Meta:
        db_table = "reservation_users"
        constraints = [
            models.UniqueConstraint(name="reservation_user_once", fields=["reservation", "account"])
        ]

    def __str__(self) -> str:
        return f"{self.account_id} of {self.reservation_id}"


class CalendarFeed(models.Model):
    """An address that a calendar program reads; only the SHA-256 of its secret is kept."""

    id = models.TextField(primary_key=True, default=partial(ids.new, "cal"))
    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="+")
    account = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    pool = models.ForeignKey(
        Pool, models.CASCADE, null=True, related_name="+", help_text="null: one's reservations"
    )
    secret_hash = models.TextField()
    created_at = models.DateTimeField(db_default=ComputeNow())
    last_read_at = models.DateTimeField(null=True)
    window_at = models.DateTimeField(null=True, help_text="since when reads are counted")
    reads = models.IntegerField(default=0)
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "calendar_feeds"

    def __str__(self) -> str:
        return self.id


#: How long a person has to answer, and the agent to come back.
CONFIRMATION_LIFETIME = timedelta(minutes=30)
_LIVE_CONFIRMATION = models.Q(state__in=["open", "approved"])


class Confirmation(models.Model):
    """What an agent asks its person for: exactly one act, once (R36)."""

    id = models.TextField(primary_key=True, default=partial(ids.new, "cnf"))
    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="+")
    account = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="+", help_text="the person"
    )
    token = models.ForeignKey(ApiToken, models.CASCADE, related_name="+")
    agent = models.TextField()
    action = models.TextField()
    resource_id = models.TextField(help_text="a reservation or a series")
    asked = models.JSONField(help_text="what of it exactly")
    digest = models.TextField(help_text="SHA-256 of what is asked")
    state = models.TextField(default=ConfirmationState.OPEN)
    reason = models.TextField(default="", help_text="why it was denied")
    asked_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    decided_at = models.DateTimeField(null=True)
    #: null where a policy denied it meanwhile
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+"
    )
    withdrawn = models.BooleanField(db_default=False, help_text="denied once approved")
    ended_at = models.DateTimeField(null=True, help_text="reached a terminal state")
    version = models.BigIntegerField(default=1)

    #: ``compute_now()`` of the transaction that locked the row; not a column.
    read_at: datetime

    class Meta:
        db_table = "confirmations"
        constraints = [
            models.UniqueConstraint(
                name="confirmation_asked_once",
                fields=["token", "action", "resource_id", "digest"],
                condition=_LIVE_CONFIRMATION,
            ),
            models.CheckConstraint(
                name="confirmation_within_half_an_hour",
                condition=models.Q(expires_at__lte=models.F("asked_at") + CONFIRMATION_LIFETIME),
            ),
            models.CheckConstraint(
                name="confirmation_decided_by_somebody",
                condition=~models.Q(state__in=["approved", "used"])
                | models.Q(decided_at__isnull=False),
            ),
        ]
        indexes = [
            models.Index(name="confirmation_newest", fields=["tenant", "-id"]),
            models.Index(name="confirmation_mine", fields=["account", "tenant", "-id"]),
            # Which await somebody, and when the others ended.
            models.Index(
                name="confirmation_live", fields=["account"], condition=_LIVE_CONFIRMATION
            ),
            models.Index(name="confirmation_over", fields=["ended_at"]),
        ]

    def __str__(self) -> str:
        return self.id


class Allocation(models.Model):
    """The part of a reservation on one node: its bookings carry this id."""

    id = models.TextField(primary_key=True, default=partial(ids.new, "alloc"))
    reservation = models.ForeignKey(Reservation, models.PROTECT, related_name="allocations")
    node_id = models.TextField()
    device_ids = ArrayField(models.TextField())
    resources = models.JSONField(default=dict, help_text="{vcpu, memoryGiB, hugepages1Gi} booked")
    state = models.TextField(default=AllocationState.PLACED)
    binding = models.JSONField(null=True, help_text="{nodeId, cdiDevices, envFile, cgroupParent?}")
    reason = models.TextField(default="")
    version = models.BigIntegerField(default=1)
    created_at = models.DateTimeField(db_default=ComputeNow())
    ended_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "allocations"
        indexes = [
            models.Index(name="allocation_by_node", fields=["node_id", "state"]),
        ]

    def __str__(self) -> str:
        return self.id


class ApiWatch(models.Model):
    """When any web process last beat: one row (C38)."""

    id = models.IntegerField(primary_key=True, default=1)
    beat_at = models.DateTimeField(help_text="the last beat of any web process")

    class Meta:
        db_table = "api_watch"
        constraints = [models.CheckConstraint(name="api_watch_one_row", condition=models.Q(id=1))]

    def __str__(self) -> str:
        return f"the API until {self.beat_at}"


class ApiOutage(models.Model):
    """A time in which no web process served, and so no lease ran on (C38)."""

    began_at = models.DateTimeField(help_text="the last beat before it")
    ended_at = models.DateTimeField(help_text="the first beat after it")
    applied_at = models.DateTimeField(
        null=True, help_text="when its length was added to the leases"
    )

    class Meta:
        db_table = "api_outages"
        constraints = [
            models.CheckConstraint(
                name="api_outage_has_length",
                condition=models.Q(ended_at__gt=models.F("began_at")),
            )
        ]
        indexes = [
            models.Index(
                name="api_outage_unapplied",
                fields=["began_at"],
                condition=models.Q(applied_at__isnull=True),
            )
        ]

    def __str__(self) -> str:
        return f"{self.began_at} to {self.ended_at}"


class ExtendHold(models.Model):
    """An extension under way: who may apply the staged change (R34)."""

    reservation = models.OneToOneField(
        Reservation, models.CASCADE, primary_key=True, related_name="+"
    )
    hold = models.TextField(help_text="a nonce of the server")
    taken_at = models.DateTimeField()

    class Meta:
        db_table = "extend_holds"

    def __str__(self) -> str:
        return self.hold


class Extension(models.Model):
    """An extension that was made, by the key that asked for it (R33)."""

    reservation = models.ForeignKey(Reservation, models.PROTECT, related_name="extensions")
    account = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    idempotency_key = models.TextField()
    request_hash = models.TextField()
    ends_before = models.DateTimeField()
    ends_after = models.DateTimeField()
    made_at = models.DateTimeField()

    class Meta:
        db_table = "extensions"
        constraints = [
            models.UniqueConstraint(
                name="extension_once_per_key",
                fields=["reservation", "account", "idempotency_key"],
            )
        ]

    def __str__(self) -> str:
        return f"until {self.ends_after}"
