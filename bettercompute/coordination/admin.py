"""Operators' registers of coordination: who is in charge since when, and what is due."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.db import transaction
from django.db.models import BooleanField, Case, QuerySet, Value, When
from django.http import HttpRequest

from bettercompute.acts import Thing
from bettercompute.audit import entries
from bettercompute.columns import ComputeNow
from bettercompute.coordination import heartbeats, roles, workqueue
from bettercompute.coordination.models import Heartbeat, Lease, WorkItem
from bettercompute.operators import fields
from bettercompute.operators.operations import Effect, Operation, Outcome
from bettercompute.operators.registers import ReadOnlyAdmin

# What a key of the work queue names, where that has a page.
SUBJECTS: Mapping[str, str] = {
    "reservation": "reservations.reservation",
    "inventory": "nodes.node",
    "node": "nodes.node",
    "pool": "pools.pool",
}
ERROR_SHOWN = 120


@admin.register(Lease)
class LeaseAdmin(ReadOnlyAdmin):
    """Who is in charge of what, since when."""

    list_display = (
        "role",
        "note",
        "in_force",
        "acquired_at",
        "epoch",
        "expires_at",
        "name",
        "owner",
    )
    search_fields = ("name__startswith", "owner__exact")
    search_help_text = "Start of the name, or the exact owner"
    ordering = ("name",)
    also = ("role", "in_force")

    def role(self, row: Any) -> str:
        """What its holder does."""
        return roles.words(row.name)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Lease]:
        """With what the one clock says of each."""
        rows: QuerySet[Lease] = super().get_queryset(request)
        return rows.annotate(in_force=_holds(expires_at__gt=ComputeNow()))

    @admin.display(description="in force")
    def in_force(self, row: Any) -> object:
        """Whether the holder is in charge now."""
        return fields.flag(row.in_force)


@admin.register(Heartbeat)
class HeartbeatAdmin(ReadOnlyAdmin):
    """Processes that could write a moment ago."""

    list_display = ("process", "role", "alive", "beaten_at", "started_at")
    ordering = ("role", "-beaten_at")
    search_fields = ("process__exact",)
    search_help_text = "Exact id of the process"
    also = ("alive",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Heartbeat]:
        """With what the one clock says of each."""
        since = ComputeNow() - timedelta(seconds=heartbeats.ALIVE_SECONDS)
        rows: QuerySet[Heartbeat] = super().get_queryset(request)
        return rows.annotate(alive=_holds(beaten_at__gt=since))

    def alive(self, row: Any) -> object:
        """Whether it beat lately."""
        return fields.flag(row.alive)


def _requeue_effect(account: Any, row: WorkItem) -> Effect:
    return Effect(
        (
            "A worker looks at it at once instead of waiting for its time.",
            "What it then does follows from the state it finds; nothing else is changed.",
            "Failures so far stay counted until it succeeds.",
        ),
        ("Kind", "Key", "Not before", "Failures", "Last error"),
        ((row.kind, row.key, fields.instant(row.not_before), row.attempts, row.last_error),),
    )


def _requeue(account: Any, row: WorkItem, answers: Mapping[str, Any]) -> Outcome:
    with transaction.atomic():
        workqueue.enqueue(row.kind, row.key)
        entries.record("compute:work:look-now", Thing(row.kind, row.key), tenant_id="")
    return Outcome("it is due now")


REQUEUE = Operation("requeue", "Look now", _requeue_effect, _requeue)


@admin.register(WorkItem)
class WorkItemAdmin(ReadOnlyAdmin):
    """The work queue: what is due or waits, and what keeps failing."""

    list_display = ("kind", "subject", "not_before", "attempts", "failing_since", "error", "shard")
    list_filter = ("kind", "shard")
    search_fields = ("key__exact",)
    search_help_text = "Exact key: the id of a reservation, node or pool"
    ordering = ("-attempts", "not_before")
    operations = (REQUEUE,)
    also = ("subject",)

    @admin.display(description="key")
    def subject(self, row: WorkItem) -> object:
        """What it is about."""
        return fields.link(SUBJECTS.get(row.kind, ""), row.key)

    @admin.display(description="last error")
    def error(self, row: WorkItem) -> str:
        """The beginning of the last error; its page has all of it."""
        return row.last_error[:ERROR_SHOWN] or fields.NOTHING


def _holds(**condition: Any) -> Case:
    return Case(
        When(**condition, then=Value(True)), default=Value(False), output_field=BooleanField()
    )
