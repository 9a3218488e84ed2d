"""Operators' registers of nodes: machines, what is on them, and what may be done to them (N18)."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from django import forms
from django.contrib import admin
from django.db import models
from django.db.models.functions import Coalesce
from django.http import HttpRequest

from bettercompute import clock, states
from bettercompute.iam import callers
from bettercompute.iam.callers import Caller
from bettercompute.iam.models import Account
from bettercompute.operators import documents, fields
from bettercompute.operators.operations import Effect, Operation, Outcome, ReasonForm
from bettercompute.operators.registers import ReadOnlyAdmin, ReadOnlyTable, one_of
from nodes import enrollment, maintenance_admin, queries
from nodes.models import (
    Assignment,
    Device,
    DeviceBooking,
    DeviceKind,
    Enrollment,
    Node,
    NodeCondition,
    NodeDesired,
    NodeInventory,
    NodeKey,
    NodeResource,
    NodeSession,
    ReportedState,
    ResourceBooking,
)
from nodes.operations import cordon, quarantine, taint

RESERVATION = "reservations.reservation"
ALLOCATION = "reservations.allocation"
OCCUPANT_HEADINGS = ("Reservation", "Devices", "Until", "Held by the node")


def _caller(account: Any, node: Node) -> Caller:
    """The operator on behalf of the node's owner."""
    return callers.for_tenant(cast("Account", account), node.pool.tenant_id)


def _occupied(sentences: tuple[str, ...], occupants: Sequence[queries.Occupant]) -> Effect:
    rows = tuple(
        (
            fields.link(RESERVATION, each.owner_key),
            len(each.device_ids),
            fields.instant(each.until),
            "yes" if each.wanted else "not yet",
        )
        for each in occupants
    )
    return Effect(sentences, OCCUPANT_HEADINGS, rows)


def _cordon_effect(account: Any, row: Node) -> Effect:
    effect = cordon.preview(_caller(account, row), node_id=row.pk).effect
    if not effect.allocations:
        return Effect(("No new placements on this node.", "Nothing is on it now."))
    assert effect.last_end is not None
    stays = (
        f"What is there stays until it ends: allocations {effect.allocations}, devices"
        f" {effect.devices}, the last until {clock.from_ms(effect.last_end):%Y-%m-%d %H:%M} UTC."
    )
    return _occupied(("No new placements on this node.", stays), queries.occupants(row.pk))


def _cordon(account: Any, row: Node, answers: Mapping[str, Any]) -> Outcome:
    cordon.apply(_caller(account, row), node_id=row.pk, if_match=answers["if_match"])
    return Outcome("cordoned, it takes no new placements")


def _uncordon_effect(account: Any, row: Node) -> Effect:
    shown = cordon.preview(_caller(account, row), node_id=row.pk).node
    sentences: tuple[str, ...] = (
        "It takes new placements again.",
        "Who waits for this pool is tried at once.",
    )
    if shown.state != states.NodeState.READY:
        sentences = (*sentences, f"Not before it is ready, though: it is {shown.state} now.")
    return Effect(sentences)


def _uncordon(account: Any, row: Node, answers: Mapping[str, Any]) -> Outcome:
    cordon.end(_caller(account, row), node_id=row.pk, if_match=answers["if_match"])
    return Outcome("uncordoned, it takes new placements again")


class TaintForm(ReasonForm):
    """All taints of a node: what is not in the list is removed."""

    taints = documents.DocumentField(
        required=False,
        widget=forms.Textarea(attrs={"class": "vLargeTextField", "rows": 5}),
        help_text='A list: [{"key": "maintenance", "value": "psu"}]. Empty removes all.',
    )

    def clean_taints(self) -> list[dict[str, Any]]:
        """A list of objects; what is in them the use case judges."""
        taints = self.cleaned_data["taints"] or []
        if not isinstance(taints, list) or not all(isinstance(each, dict) for each in taints):
            raise forms.ValidationError("This must be a list of objects with a key.")
        return taints


def _taint_effect(account: Any, row: Node) -> Effect:
    occupants = taint.preview(_caller(account, row), node_id=row.pk)
    sentences = (
        "New work is placed here only if it tolerates each taint of the list.",
        "What is there stays until it ends, whether it tolerates them or not.",
    )
    return _occupied(sentences, occupants)


def _taint(account: Any, row: Node, answers: Mapping[str, Any]) -> Outcome:
    taint.apply(
        _caller(account, row),
        node_id=row.pk,
        taints=answers["taints"],
        if_match=answers["if_match"],
    )
    return Outcome(f"{len(answers['taints'])} taints")


def _enrolment_effect(account: Any, row: Node) -> Effect:
    hours = enrollment.VALID_SECONDS // 3_600
    return Effect(
        (
            f"Whoever has the token may become this node's agent, once, within {hours} hours.",
            "It is shown on the next page and never again. Tokens given out before stay good.",
        )
    )


def _enrol(account: Any, row: Node, answers: Mapping[str, Any]) -> Outcome:
    made = enrollment.create(node_id=row.pk)
    until = f"{made.expires_at:%Y-%m-%d %H:%M} UTC"
    return Outcome(f"a token was given out, good until {until}", secret=made.token)


CORDON = Operation(
    "cordon", "Cordon", _cordon_effect, _cordon, offered=lambda row: not row.cordoned
)
UNCORDON = Operation(
    "uncordon", "Uncordon", _uncordon_effect, _uncordon, offered=lambda row: row.cordoned
)
TAINT = Operation(
    "taint",
    "Change taints",
    _taint_effect,
    _taint,
    TaintForm,
    initial=lambda row: {"taints": row.taints},
    several=False,
)
MAINTAIN = maintenance_admin.announcing(maintenance_admin.node_place)
ENROL = Operation("enrol", "Create enrolment token", _enrolment_effect, _enrol, several=False)


class Session(ReadOnlyTable):
    """The conversation with the node's agent."""

    model = NodeSession
    verbose_name_plural = "session"
    columns = (
        "agent_version",
        "gateway_id",
        "epoch",
        "applied_seq",
        "connected_at",
        "last_seen_at",
    )


class Conditions(ReadOnlyTable):
    """What is true of the node now."""

    model = NodeCondition
    verbose_name_plural = "conditions"
    columns = ("type", "reason", "message", "since")


class Resources(ReadOnlyTable):
    """The host's CPUs, memory and huge pages."""

    model = NodeResource
    verbose_name_plural = "resources"
    columns = ("resource", "allocatable", "allocated", "ceiling", "ratio")


class Devices(ReadOnlyTable):
    """The node's GPUs and their parts."""

    model = Device
    links = {"id": "nodes.device"}
    columns = (
        "index",
        "id",
        "kind",
        "model",
        "profile",
        "memory_mib",
        "bookable_mode",
        "healthy",
        "quarantined",
    )
    ordering = ("index", "id")


class Inventory(ReadOnlyTable):
    """The last inventory, without its body."""

    model = NodeInventory
    verbose_name_plural = "inventory"
    columns = ("seq", "received_at", "applied_at", "error")


class Desired(ReadOnlyTable):
    """What the agent should make true, by generation."""

    model = NodeDesired
    verbose_name_plural = "desired state"
    columns = ("generation", "changed_at")


class Assignments(ReadOnlyTable):
    """What is planned for the node or held by it."""

    model = Assignment
    links = {"owner_key": RESERVATION, "allocation_id": "nodes.assignment"}
    columns = ("allocation_id", "owner_key", "device_ids", "wanted", "reported", "until")
    ordering = ("until",)


@admin.register(Node)
class NodeAdmin(ReadOnlyAdmin):
    """Whether they take work, what they have, what is on them."""

    list_display = (
        "name",
        "pool",
        "state",
        "cordoned",
        "devices_usable",
        "held",
        "conditions_now",
        "last_seen",
    )
    list_select_related = ("pool", "session")
    list_filter = (one_of("state", states.NodeState), "cordoned")
    search_fields = ("id__exact", "name__startswith", "pool__id__exact")
    search_help_text = "Exact id, start of the host name, or exact id of the pool"
    ordering = ("name", "id")
    inlines = (
        Conditions,
        maintenance_admin.Maintenance,
        Session,
        Assignments,
        Devices,
        Resources,
        Inventory,
        Desired,
    )
    operations = (CORDON, UNCORDON, TAINT, MAINTAIN, ENROL)

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Node]:
        """With its conditions, and how many devices it has and how many allocations hold some."""
        devices = Device.objects.filter(node=models.OuterRef("pk"), bookable_mode__isnull=False)
        usable = devices.filter(healthy=True, quarantined=False)
        assignments = Assignment.objects.filter(node=models.OuterRef("pk"))
        rows: models.QuerySet[Node] = super().get_queryset(request)
        return rows.prefetch_related("conditions").annotate(
            bookable=_count(devices), usable=_count(usable), allocations=_count(assignments)
        )

    @admin.display(description="usable devices")
    def devices_usable(self, row: Any) -> str:
        """Healthy and not quarantined, of those that are bookable."""
        return f"{row.usable} of {row.bookable}"

    @admin.display(description="allocations")
    def held(self, row: Any) -> int:
        """Planned for it or held by it."""
        return int(row.allocations)

    @admin.display(description="conditions")
    def conditions_now(self, row: Node) -> str:
        """What is true of it now."""
        return ", ".join(sorted(each.type for each in row.conditions.all())) or fields.NOTHING

    @admin.display(description="last seen")
    def last_seen(self, row: Node) -> object:
        """When a gateway last heard its agent."""
        session = getattr(row, "session", None)
        return fields.instant(session.last_seen_at if session else None)


def _count(rows: models.QuerySet[Any]) -> Coalesce:
    counted = rows.order_by().values("node").annotate(rows=models.Count("*")).values("rows")
    return Coalesce(models.Subquery(counted, output_field=models.IntegerField()), 0)


def _quarantine_effect(account: Any, row: Device) -> Effect:
    effect = quarantine.preview(_caller(account, row.node), device_id=row.pk)
    sentences = (
        f"No new bookings of this device on {effect.node_name}.",
        "What holds it keeps it until it ends."
        if effect.occupants
        else "Nothing holds it, now or later.",
    )
    return _occupied(sentences, effect.occupants)


def _quarantine(account: Any, row: Device, answers: Mapping[str, Any]) -> Outcome:
    quarantine.apply(_caller(account, row.node), device_id=row.pk, reason=answers["reason"])
    return Outcome("quarantined, it is booked no more")


def _lift_effect(account: Any, row: Device) -> Effect:
    effect = quarantine.preview(_caller(account, row.node), device_id=row.pk)
    sentences: tuple[str, ...] = (
        "It is booked again, and who waits for this pool is tried at once.",
    )
    if not row.healthy:
        sentences = (*sentences, f"Not before it is healthy, though: {row.health_reason}.")
    return _occupied(sentences, effect.occupants)


def _lift(account: Any, row: Device, answers: Mapping[str, Any]) -> Outcome:
    quarantine.end(_caller(account, row.node), device_id=row.pk, reason=answers["reason"])
    return Outcome("the quarantine is lifted")


QUARANTINE = Operation(
    "quarantine",
    "Quarantine",
    _quarantine_effect,
    _quarantine,
    offered=lambda row: not row.quarantined,
)
LIFT = Operation(
    "lift-quarantine",
    "Lift quarantine",
    _lift_effect,
    _lift,
    offered=lambda row: row.quarantined,
)


@admin.register(Device)
class DeviceAdmin(ReadOnlyAdmin):
    """GPUs and their parts; the bookable ones are atoms."""

    list_display = (
        "id",
        "node",
        "index",
        "kind",
        "model",
        "profile",
        "bookable_mode",
        "healthy",
        "quarantined",
    )
    list_select_related = ("node__pool",)
    list_filter = (one_of("kind", DeviceKind.values), "healthy", "quarantined")
    search_fields = ("id__exact", "node__id__exact", "node__name__exact")
    search_help_text = "Exact id, or exact id or name of the node"
    ordering = ("node", "index", "id")
    operations = (QUARANTINE, LIFT)
    also = ("occupants",)
    links = {"gpu": "nodes.device"}

    @admin.display(description="holds it, now or later")
    def occupants(self, row: Device) -> object:
        """Whose it is."""
        found = queries.occupants(row.node_id, device_id=row.pk)
        return _occupied((), found).table or fields.NOTHING


@admin.register(DeviceBooking)
class DeviceBookingAdmin(ReadOnlyAdmin):
    """Claims on devices for a window."""

    list_display = ("id", "device", "during", "allocation_id")
    links = {"allocation_id": "nodes.assignment"}
    search_fields = ("allocation_id__exact", "device__id__exact")
    search_help_text = "Exact id of the allocation or the device"
    ordering = ("-id",)
    long = True


@admin.register(ResourceBooking)
class ResourceBookingAdmin(ReadOnlyAdmin):
    """Claims on a host's CPUs and memory for a window."""

    list_display = ("id", "node", "resource", "amount", "during", "allocation_id")
    list_select_related = ("node",)
    links = {"allocation_id": ALLOCATION}
    search_fields = ("allocation_id__exact",)
    search_help_text = "Exact id of the allocation"
    ordering = ("-id",)
    long = True


@admin.register(Assignment)
class AssignmentAdmin(ReadOnlyAdmin):
    """What nodes should hold, and what they last said of it."""

    list_display = ("allocation_id", "owner_key", "node", "wanted", "reported", "until")
    list_select_related = ("node",)
    list_filter = (one_of("reported", filter(None, ReportedState.values)), "wanted")
    links = {"owner_key": RESERVATION, "device_ids": "nodes.device"}
    search_fields = ("allocation_id__exact", "node__name__exact")
    search_help_text = "Exact id of the allocation, or name of the node"
    ordering = ("until", "allocation_id")


@admin.register(Enrollment)
class EnrollmentAdmin(ReadOnlyAdmin):
    """Rights given out to become a node's agent, without the tokens."""

    list_display = ("id", "node", "expires_at", "used_at")
    list_select_related = ("node",)
    hidden = ("token_hash",)
    search_fields = ("id__exact", "node__name__exact")
    search_help_text = "Exact id, or name of the node"
    ordering = ("-id",)


@admin.register(NodeKey)
class NodeKeyAdmin(ReadOnlyAdmin):
    """Public keys of agents."""

    list_display = ("kid", "node", "created_at", "expires_at", "revoked_at")
    list_select_related = ("node",)
    search_fields = ("kid__exact", "node__name__exact")
    search_help_text = "Exact key id, or name of the node"
    ordering = ("-created_at", "kid")
