"""Tables of iam: tenants, accounts, memberships, tokens, policies, the authorization feed."""

from functools import partial

from django.contrib.auth.models import AbstractUser
from django.contrib.postgres.fields import ArrayField
from django.db import models

from bettercompute import ids
from bettercompute.columns import ComputeNow, CurrentTransaction, Xid8Field


class Tenant(models.Model):
    """Who owns pools and reservations: a lab, a team, a customer."""

    id = models.TextField(primary_key=True, default=partial(ids.new, "ten"))
    slug = models.SlugField(unique=True)
    name = models.TextField()
    version = models.BigIntegerField(default=1)
    created_at = models.DateTimeField(db_default=ComputeNow())

    class Meta:
        db_table = "tenants"

    def __str__(self) -> str:
        return self.slug


class Account(AbstractUser):
    """A person or a service that acts. Its id is the *identity* of R6."""

    id = models.TextField(primary_key=True, default=partial(ids.new, "usr"))
    time_zone = models.TextField(default="UTC", help_text="the console shows times in this zone")
    date_joined = models.DateTimeField(db_default=ComputeNow())

    class Meta:
        db_table = "accounts"

    def __str__(self) -> str:
        return self.username


class Role(models.TextChoices):
    """What a member may do is a policy's business; the role is one of its attributes."""

    ADMIN = "admin"
    MEMBER = "member"


class Membership(models.Model):
    """An account belongs to a tenant, in a role."""

    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="memberships")
    account = models.ForeignKey(Account, models.CASCADE, related_name="memberships")
    role = models.TextField(choices=Role.choices, default=Role.MEMBER)
    created_at = models.DateTimeField(db_default=ComputeNow())

    class Meta:
        db_table = "memberships"
        constraints = [
            models.UniqueConstraint(
                name="membership_once_per_tenant", fields=["tenant", "account"]
            ),
            models.CheckConstraint(
                name="membership_role_known", condition=models.Q(role__in=Role.values)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.account_id} in {self.tenant_id}"


class ApiToken(models.Model):
    """An API token, ``bct_<id>_<secret>``: only the SHA-256 of its 256-bit secret is kept (A2)."""

    id = models.TextField(primary_key=True, default=partial(ids.new, "tok"))
    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="tokens")
    account = models.ForeignKey(Account, models.CASCADE, related_name="tokens")
    name = models.TextField()
    secret_hash = models.TextField()
    created_at = models.DateTimeField(db_default=ComputeNow())
    expires_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    requests_per_second = models.PositiveIntegerField(
        null=True, help_text="empty: as for everybody; 0: no limit"
    )
    agent = models.TextField(
        default="", db_default="", help_text="who uses it for its account; empty: the person"
    )
    confirm = ArrayField(
        models.TextField(),
        default=list,
        db_default=[],
        help_text="actions that wait for the person (R36)",
    )

    class Meta:
        db_table = "api_tokens"
        verbose_name = "API token"
        constraints = [
            models.CheckConstraint(
                name="api_token_holds_only_for_agents",
                condition=models.Q(confirm=[]) | ~models.Q(agent=""),
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.id})"


class Policy(models.Model):
    """A Cedar policy document of the platform (no tenant) or of one tenant."""

    id = models.TextField(primary_key=True, default=partial(ids.new, "pol"))
    tenant = models.ForeignKey(Tenant, models.CASCADE, null=True, related_name="policies")
    name = models.TextField()
    text = models.TextField(help_text="Cedar; validated against the schema when saved")
    enabled = models.BooleanField(default=True)
    version = models.BigIntegerField(default=1)
    created_at = models.DateTimeField(db_default=ComputeNow())

    class Meta:
        db_table = "policies"
        verbose_name_plural = "policies"
        constraints = [
            models.UniqueConstraint(
                name="policy_name_once_per_tenant", fields=["tenant", "name"], nulls_distinct=False
            )
        ]

    def __str__(self) -> str:
        return self.name


class AuthzResource(models.Model):
    """The authorization projection: what a policy engine knows of a resource (R10)."""

    id = models.TextField(primary_key=True, help_text="the resource's own id")
    kind = models.TextField()
    tenant = models.ForeignKey(Tenant, models.CASCADE)
    attributes = models.JSONField(default=dict)
    pending = models.JSONField(null=True, help_text="a change that awaits its decision (R34)")

    class Meta:
        db_table = "authz_resources"

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"


class AuthzChange(models.Model):
    """One entry of the feed for an outside policy engine: always a whole state (C23, C28)."""

    seq = models.BigAutoField(primary_key=True)
    txid = Xid8Field(db_default=CurrentTransaction())
    resource_id = models.TextField()
    kind = models.TextField()
    tenant_id = models.TextField()
    state = models.JSONField()
    changed_at = models.DateTimeField(db_default=ComputeNow())

    class Meta:
        db_table = "authz_changes"
        indexes = [
            models.Index(name="authz_changes_in_order", fields=["txid", "seq"]),
            # Which entries of a resource a later one makes needless; the newest of each.
            models.Index(name="authz_changes_by_resource", fields=["resource_id", "txid", "seq"]),
        ]

    def __str__(self) -> str:
        return f"{self.seq} {self.resource_id}"
