"""Tables of nodes: machines, devices, the bookings of their time, and what agents say."""

from functools import partial

from django.conf import settings
from django.contrib.postgres.fields import ArrayField, DateTimeRangeField
from django.db import models

from bettercompute import ids
from bettercompute.columns import ComputeNow
from bettercompute.states import NodeState


class Node(models.Model):
    """A GPU host. Its row changes only when its eligibility changes (C13).

    Liveness ages, desired generations and inventories live in tables of their own, so that writing
    them never meets a placer that holds this row FOR SHARE.
    """

    id = models.TextField(primary_key=True, default=partial(ids.new, "node"))
    # A string, not an import: pools sits above nodes.
    pool = models.ForeignKey("pools.Pool", models.PROTECT, related_name="+")
    name = models.TextField(help_text="host name")
    state = models.TextField(default=NodeState.READY)
    cordoned = models.BooleanField(default=False, help_text="no new placements")
    labels = models.JSONField(default=dict, help_text="set by operators; never under bc.dev/")
    system_labels = models.JSONField(default=dict, help_text="bc.dev/…, written by us only (N5)")
    taints = models.JSONField(default=list, help_text="[{key, value?, effect}]")
    platform_trusted = models.BooleanField(default=False)
    version = models.BigIntegerField(default=1)
    created_at = models.DateTimeField(db_default=ComputeNow())

    class Meta:
        db_table = "nodes"
        constraints = [
            models.UniqueConstraint(name="node_name_once_per_pool", fields=["pool", "name"])
        ]

    def __str__(self) -> str:
        return self.name


class DeviceKind(models.TextChoices):
    """What a row of devices is."""

    GPU = "gpu"
    MIG = "mig"
    SLOT = "slot"


class Mode(models.TextChoices):
    """How a GPU is handed out (N10). It exposes itself, its instances, or its slots: only one."""

    WHOLE = "whole"
    MIG = "mig"
    SLOTS = "slots"


class Device(models.Model):
    """A physical GPU, or a part of one; bookable rows are the *atoms*.

    C10, kept by keys: ``(gpu, bookable_mode)`` refers to ``(id, mode)`` of the GPU's own row, so an
    atom can only be bookable in the mode its GPU is in. In mode ``mig`` the GPU's own row (whose
    only mode is ``whole``) cannot be bookable beside its instances, whatever any code does.
    """

    id = models.TextField(primary_key=True, help_text="GPU-…; GPU-…/m0-1g.10gb; GPU-…/s3")
    node = models.ForeignKey(Node, models.PROTECT, related_name="devices")
    gpu = models.ForeignKey(
        "self", models.PROTECT, related_name="atoms", help_text="itself, if whole"
    )
    kind = models.TextField(choices=DeviceKind.choices)
    mode = models.TextField(choices=Mode.choices, null=True, help_text="of a GPU's own row only")
    bookable_mode = models.TextField(
        choices=Mode.choices, null=True, help_text="null: not bookable"
    )
    model = models.TextField(help_text="the class people ask for: H100")
    product = models.TextField(help_text="as the driver names it: NVIDIA H100 80GB HBM3")
    profile = models.TextField(default="", help_text="of a MIG instance: 1g.10gb")
    memory_mib = models.BigIntegerField()
    milli = models.IntegerField(default=1000, help_text="thousandths of a GPU, for quotas")
    index = models.IntegerField(help_text="as the driver counts now: for people, never an identity")
    numa_node = models.IntegerField(null=True)
    nvlink_group = models.IntegerField(null=True, help_text="every pair in it is linked")
    driver = models.TextField(default="")
    healthy = models.BooleanField(default=True)
    health_reason = models.TextField(default="")
    quarantined = models.BooleanField(default=False, help_text="an operator or a failed unbind")
    attributes = models.JSONField(default=dict, help_text="what else the driver said")
    version = models.BigIntegerField(default=1)

    class Meta:
        db_table = "devices"
        indexes = [models.Index(name="device_by_node", fields=["node", "index"])]

    def __str__(self) -> str:
        return self.id


class DeviceBooking(models.Model):
    """A claim on one device for ``[start, end)`` (C9). booking_no_overlap refuses a second one."""

    # The index is booking_of_device, by (device, upper(during)).
    device = models.ForeignKey(Device, models.PROTECT, related_name="bookings", db_index=False)
    allocation_id = models.TextField(help_text="alloc_…, or cmd_… while a mode changes")
    during = DateTimeRangeField()

    class Meta:
        db_table = "device_bookings"
        indexes = [models.Index(name="booking_by_allocation", fields=["allocation_id"])]

    def __str__(self) -> str:
        return f"{self.device_id} {self.during}"


class NodeResource(models.Model):
    """A host's amount of one resource: vcpu, memoryGiB, hugepages1Gi (C12)."""

    node = models.ForeignKey(Node, models.CASCADE, related_name="resources")
    resource = models.TextField()
    allocatable = models.BigIntegerField()
    ratio = models.DecimalField(max_digits=6, decimal_places=3, default=1)
    allocated = models.BigIntegerField(default=0, help_text="the peak of live bookings over time")
    ceiling = models.BigIntegerField(help_text="what allocated may not pass; see C12")

    class Meta:
        db_table = "node_resources"
        constraints = [
            models.UniqueConstraint(name="node_resource_once", fields=["node", "resource"]),
            models.CheckConstraint(
                name="node_resource_within_ceiling",
                condition=models.Q(allocated__lte=models.F("ceiling")),
            ),
            models.CheckConstraint(
                name="node_resource_not_negative",
                condition=models.Q(allocatable__gte=0) & models.Q(allocated__gte=0),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.node_id} {self.resource}"


class PoolHardware(models.Model):
    """Which hardware a pool is made of, as a number; triggers write it.

    It is another after each transaction that changed devices or amounts of the pool's hosts, so
    what follows from these alone may be kept in memory for as long as it stays. Not a key to the
    pool: that may be gone in the transaction that takes its last device.
    """

    pool_id = models.TextField(primary_key=True)
    generation = models.BigIntegerField(help_text="the transaction that changed it last")

    class Meta:
        db_table = "pool_hardware"

    def __str__(self) -> str:
        return f"{self.pool_id} {self.generation}"


class ResourceBooking(models.Model):
    """A claim on an amount of a host's resource for ``[start, end)``."""

    node = models.ForeignKey(Node, models.PROTECT, related_name="resource_bookings")
    resource = models.TextField()
    amount = models.BigIntegerField()
    during = DateTimeRangeField()
    allocation_id = models.TextField()

    class Meta:
        db_table = "resource_bookings"
        constraints = [
            models.CheckConstraint(
                name="resource_booking_positive", condition=models.Q(amount__gt=0)
            )
        ]
        indexes = [models.Index(name="resource_booking_by_alloc", fields=["allocation_id"])]

    def __str__(self) -> str:
        return f"{self.node_id} {self.resource} {self.amount}"


class MaintenanceWindow(models.Model):
    """Planned work on a node, or on all of a pool: nothing new is booked over it.

    What was booked before it was announced stays; ``last_booking_id`` tells the two apart.
    """

    id = models.TextField(primary_key=True, default=partial(ids.new, "mnt"))
    # Strings, not imports: pools sits above nodes.
    pool = models.ForeignKey("pools.Pool", models.PROTECT, related_name="+")
    node = models.ForeignKey(
        Node, models.PROTECT, null=True, related_name="maintenance", help_text="null: the pool"
    )
    during = DateTimeRangeField()
    reason = models.TextField(help_text="what everybody reads who may book the pool")
    announced_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="+", help_text="who"
    )
    announced_at = models.DateTimeField()
    cancelled_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+"
    )
    cancelled_at = models.DateTimeField(null=True, help_text="null: it stands")
    last_booking_id = models.BigIntegerField(help_text="the newest booking when it was announced")
    version = models.BigIntegerField(default=1)

    class Meta:
        db_table = "maintenance_windows"
        constraints = [
            models.CheckConstraint(
                name="maintenance_cancelled_by_somebody",
                condition=models.Q(cancelled_at__isnull=True, cancelled_by__isnull=True)
                | models.Q(cancelled_at__isnull=False, cancelled_by__isnull=False),
            )
        ]

    def __str__(self) -> str:
        return self.id


class Enrollment(models.Model):
    """A one-time, expiring right to become a node's agent (N4)."""

    id = models.TextField(primary_key=True, default=partial(ids.new, "enr"))
    node = models.ForeignKey(Node, models.CASCADE, related_name="enrollments")
    token_hash = models.TextField(unique=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "node_enrollments"

    def __str__(self) -> str:
        return self.id


class NodeKey(models.Model):
    """A node's Ed25519 key: it proves who says hello, and signs reports (N5, N11)."""

    kid = models.TextField(primary_key=True)
    node = models.ForeignKey(Node, models.CASCADE, related_name="keys")
    public_key = models.BinaryField()
    certificate = models.TextField(default="")
    created_at = models.DateTimeField(db_default=ComputeNow())
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "node_keys"

    def __str__(self) -> str:
        return self.kid


class NodeSession(models.Model):
    """The one live conversation with a node's agent (N5, C37)."""

    node = models.OneToOneField(Node, models.CASCADE, primary_key=True, related_name="session")
    epoch = models.BigIntegerField()
    token_hash = models.TextField()
    gateway_id = models.TextField()
    boot_id = models.TextField(default="")
    agent_version = models.TextField(default="")
    capabilities = ArrayField(models.TextField(), default=list)
    applied_seq = models.BigIntegerField(default=0, help_text="the agent's journal, read so far")
    connected_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()

    class Meta:
        db_table = "node_sessions"

    def __str__(self) -> str:
        return f"{self.node_id} epoch {self.epoch}"


class GatewayWatch(models.Model):
    """How far each gateway can tell of its nodes (C38).

    A gap in its beats is an outage of ours: the silence of its nodes counts from the end of it.
    """

    gateway_id = models.TextField(primary_key=True)
    beat_at = models.DateTimeField(help_text="the last beat; what it knew then is flushed")
    up_since = models.DateTimeField(help_text="the first beat after the last gap")

    class Meta:
        db_table = "gateway_watch"

    def __str__(self) -> str:
        return f"{self.gateway_id} until {self.beat_at}"


class NodeCondition(models.Model):
    """What is true of a node now, for people and for ranking; it never decides eligibility."""

    node = models.ForeignKey(Node, models.CASCADE, related_name="conditions")
    type = models.TextField(help_text="Connected, Disconnected, Unreachable, Overcommitted…")
    reason = models.TextField(default="")
    message = models.TextField(default="")
    since = models.DateTimeField()

    class Meta:
        db_table = "node_conditions"
        constraints = [models.UniqueConstraint(name="node_condition_once", fields=["node", "type"])]

    def __str__(self) -> str:
        return f"{self.node_id} {self.type}"


class NodeInventory(models.Model):
    """The last inventory a node reported, and whether it is applied."""

    node = models.OneToOneField(Node, models.CASCADE, primary_key=True, related_name="inventory")
    seq = models.BigIntegerField(default=0)
    body = models.JSONField()
    received_at = models.DateTimeField()
    applied_at = models.DateTimeField(null=True)
    error = models.TextField(default="", help_text="why it could not be applied")

    class Meta:
        db_table = "node_inventories"

    def __str__(self) -> str:
        return self.node_id


class NodeDesired(models.Model):
    """The generation of what a node's agent should make true (N6)."""

    node = models.OneToOneField(Node, models.CASCADE, primary_key=True, related_name="desired")
    generation = models.BigIntegerField(default=0)
    changed_at = models.DateTimeField()

    class Meta:
        db_table = "node_desired"

    def __str__(self) -> str:
        return f"{self.node_id} at {self.generation}"


class ReportedState(models.TextChoices):
    """What the node last said of an assignment."""

    NONE = ""
    BOUND = "bound"
    FAILED = "failed"
    RELEASED = "released"


class Assignment(models.Model):
    """Devices of one node that an allocation holds: planned, then wanted, then reported.

    One row an allocation (``allocation_id`` is the assignment's id, C28). ``wanted`` puts it into
    the node's desired state. What the agent reports is kept here as received (N11) until the
    reservations' reconciler judges it.
    """

    allocation_id = models.TextField(primary_key=True)
    owner_key = models.TextField(help_text="work-queue key of who judges: the reservation's id")
    node = models.ForeignKey(Node, models.PROTECT, related_name="assignments")
    device_ids = ArrayField(models.TextField())
    until = models.DateTimeField()
    limits = models.JSONField(default=dict, help_text="{cpuMillis, memoryBytes, hugepages1Gi}")
    binding = models.TextField(default="hold")
    wanted = models.BooleanField(default=False)
    entered_at = models.DateTimeField(
        null=True, help_text="when it entered the node's desired state; null: never (R35)"
    )
    left_at = models.DateTimeField(
        null=True, help_text="when it left desired state; the unbind deadline runs from there"
    )
    reported = models.TextField(choices=ReportedState.choices, default=ReportedState.NONE)
    report_seq = models.BigIntegerField(default=0)
    reported_at = models.DateTimeField(null=True)
    report = models.JSONField(
        default=dict, help_text="the report's body: CDI names, env file, reason"
    )
    used_at = models.DateTimeField(
        null=True, help_text="when the agent first saw a workload use the devices"
    )
    bound_report = models.BinaryField(null=True, help_text="the signed bytes as received")
    bound_sig = models.BinaryField(null=True)
    bound_sig_kid = models.TextField(default="")

    class Meta:
        db_table = "assignments"
        indexes = [
            models.Index(name="assignment_wanted", fields=["node"], condition=models.Q(wanted=True))
        ]

    def __str__(self) -> str:
        return self.allocation_id
