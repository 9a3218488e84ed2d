"""Tables of pools: pools, offers to other tenants, quotas and their charges."""

from functools import partial

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models

from bettercompute import ids
from bettercompute.columns import ComputeNow
from bettercompute.iam.models import Tenant


class Placer(models.TextChoices):
    """Which placer serves a pool (R13)."""

    INLINE = "inline"
    QUEUED = "queued"


class Pool(models.Model):
    """Devices of one owner that may be booked under one policy."""

    id = models.TextField(primary_key=True, default=partial(ids.new, "pool"))
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="pools", help_text="the owner")
    name = models.SlugField()
    region = models.TextField(default="")
    placer = models.TextField(choices=Placer.choices, default=Placer.INLINE)
    policy = models.JSONField(default=dict, help_text="limits and shares: see pools.catalogue")
    version = models.BigIntegerField(default=1)
    created_at = models.DateTimeField(db_default=ComputeNow())

    class Meta:
        db_table = "pools"
        constraints = [
            models.UniqueConstraint(name="pool_name_once_per_tenant", fields=["tenant", "name"]),
            models.CheckConstraint(
                name="pool_placer_known", condition=models.Q(placer__in=Placer.values)
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Offer(models.Model):
    """A pool that its owner lets another tenant book, with limits."""

    id = models.TextField(primary_key=True, default=partial(ids.new, "off"))
    pool = models.ForeignKey(Pool, models.CASCADE, related_name="offers")
    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="offers", help_text="to whom")
    resources = models.JSONField(
        default=dict,
        help_text="{gpuMilli, vcpu, memoryGiB}: the most held by it; CPUs and memory beyond the"
        " GPUs' share",
    )
    version = models.BigIntegerField(default=1)
    created_at = models.DateTimeField(db_default=ComputeNow())

    class Meta:
        db_table = "offers"
        constraints = [
            models.UniqueConstraint(name="offer_once_per_tenant", fields=["pool", "tenant"])
        ]

    def __str__(self) -> str:
        return f"{self.pool_id} to {self.tenant_id}"


class CapacityOffer(models.Model):
    """A plan that a create may take within a minute (R21). It holds nothing."""

    id = models.TextField(primary_key=True, default=partial(ids.new, "cof"))
    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="+", help_text="whose it is")
    pool = models.ForeignKey(Pool, models.CASCADE, related_name="+")
    kinds = ArrayField(models.TextField(), help_text="what it is best at: soonest, cheapest…")
    request = models.JSONField(help_text="what a create with its id asks for")
    parts = models.JSONField(help_text="which devices of which nodes it takes")
    made_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    class Meta:
        db_table = "capacity_offers"
        constraints = [
            models.CheckConstraint(
                name="capacity_offer_expires_later",
                condition=models.Q(expires_at__gt=models.F("made_at")),
            )
        ]
        indexes = [models.Index(name="capacity_offer_expiry", fields=["expires_at"])]

    def __str__(self) -> str:
        return self.id


class BudgetPeriod(models.TextChoices):
    """When a budget is there anew."""

    MONTH = "month"
    WINDOW = "window"


class Budget(models.Model):
    """How much device-time a tenant may reserve in each month, or between two instants (R39)."""

    id = models.TextField(primary_key=True, default=partial(ids.new, "bud"))
    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="budgets")
    pool = models.ForeignKey(
        Pool,
        models.CASCADE,
        null=True,
        blank=True,
        related_name="+",
        help_text="empty: over all pools",
    )
    name = models.TextField()
    gpu_milli_hours = models.BigIntegerField(help_text="thousandths of a GPU-hour")
    period = models.TextField(choices=BudgetPeriod.choices, default=BudgetPeriod.MONTH)
    time_zone = models.TextField(default="UTC", help_text="whose midnights begin months")
    starts_at = models.DateTimeField(null=True, blank=True, help_text="of a window")
    ends_at = models.DateTimeField(null=True, blank=True, help_text="of a window")
    version = models.BigIntegerField(default=1)
    created_at = models.DateTimeField(db_default=ComputeNow())

    class Meta:
        db_table = "budgets"
        constraints = [
            models.UniqueConstraint(name="budget_name_once_per_tenant", fields=["tenant", "name"]),
            models.CheckConstraint(
                name="budget_not_negative", condition=models.Q(gpu_milli_hours__gte=0)
            ),
            models.CheckConstraint(
                name="budget_period_whole",
                condition=models.Q(
                    period=BudgetPeriod.MONTH, starts_at__isnull=True, ends_at__isnull=True
                )
                | models.Q(
                    period=BudgetPeriod.WINDOW,
                    starts_at__isnull=False,
                    ends_at__isnull=False,
                    ends_at__gt=models.F("starts_at"),
                ),
                violation_error_message="A month has no start and no end of its own; a window needs"
                " both, the end behind the start.",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class QuotaUsage(models.Model):
    """How much of a resource a tenant holds, and may hold (C14): over all, in a pool, by an offer.

    Resources: ``gpuMilli`` (thousandths of a GPU), ``vcpu``, ``memoryGiB``.
    """

    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="quotas")
    pool = models.ForeignKey(
        Pool,
        models.CASCADE,
        null=True,
        blank=True,
        related_name="+",
        help_text="empty: over all pools",
    )
    offer = models.ForeignKey(
        Offer, models.CASCADE, null=True, related_name="+", help_text="whose limit this is"
    )
    resource = models.TextField()
    used = models.BigIntegerField(default=0)
    max = models.BigIntegerField()
    version = models.BigIntegerField(default=1)

    class Meta:
        db_table = "quota_usage"
        verbose_name = "quota"
        constraints = [
            models.UniqueConstraint(
                name="quota_once_per_scope",
                fields=["tenant", "resource", "pool", "offer"],
                nulls_distinct=False,
            ),
            models.CheckConstraint(
                name="quota_of_an_offer_is_in_its_pool",
                condition=models.Q(offer__isnull=True) | models.Q(pool__isnull=False),
            ),
            models.CheckConstraint(
                name="quota_not_negative", condition=models.Q(used__gte=0) & models.Q(max__gte=0)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tenant_id} {self.resource}"


class QuotaCharge(models.Model):
    """What one reservation was charged: a refund deletes it, so nothing is refunded twice."""

    owner_key = models.TextField(help_text="the reservation's id")
    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="+")
    # Found by the reservation or by its holder: a charge is written at every create, so an index
    # that nothing reads would cost each of them.
    pool = models.ForeignKey(Pool, models.CASCADE, null=True, related_name="+", db_index=False)
    account = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.PROTECT,
        null=True,
        related_name="+",
        db_index=False,
        help_text="who holds it",
    )
    resource = models.TextField()
    amount = models.BigIntegerField()

    class Meta:
        db_table = "quota_charges"
        constraints = [
            models.UniqueConstraint(name="quota_charged_once", fields=["owner_key", "resource"]),
            models.CheckConstraint(name="quota_charge_positive", condition=models.Q(amount__gt=0)),
        ]
        indexes = [
            models.Index(name="quota_charges_of_member", fields=["tenant", "account"]),
        ]

    def __str__(self) -> str:
        return f"{self.owner_key} {self.resource} {self.amount}"
