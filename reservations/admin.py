"""Operators' registers of reservations: what tenants claim, and how each came to where it is."""

from collections.abc import Mapping
from typing import Any, cast

from django.contrib import admin

from bettercompute import states
from bettercompute.iam import callers
from bettercompute.iam.models import Account
from bettercompute.operators import fields
from bettercompute.operators.operations import Effect, Operation, Outcome
from bettercompute.operators.registers import ReadOnlyAdmin, ReadOnlyTable, one_of
from bettercompute.states import ReservationState as S
from bettercompute.states import SeriesState
from outbox import queries as events
from reservations import ending
from reservations.feeds import keeping
from reservations.models import (
    Allocation,
    CalendarFeed,
    Confirmation,
    Reservation,
    ReservationUser,
    Series,
)
from reservations.series import cancelling, queries

EVENTS_SHOWN = 30
RELEASABLE = (S.PENDING, S.PLACED, S.BINDING, S.ACTIVE)

# What a release does, by the state it finds.
_EFFECTS: Mapping[str, str] = {
    S.PENDING: "It leaves the line and is cancelled; nothing is booked for it.",
    S.PLACED: "It ends before it starts; the devices booked for it are free for others at once.",
    S.BINDING: "It ends while nodes are taking it up; its devices are free for others at once.",
    S.ACTIVE: "The workload loses its devices now; they are free once the nodes confirm.",
    S.AWAITING_CONFIRMATION: "Refused: it awaits its person, who may deny or withdraw it.",
}


def _release_effect(account: Any, row: Reservation) -> Effect:
    what = _EFFECTS.get(row.state, f"Nothing: it is {row.state} already.")
    sentences: tuple[str, ...] = (
        what,
        f"{row.tenant.slug} gets back the quota it holds for this reservation.",
    )
    if row.state not in RELEASABLE:
        sentences = (what,)
    held = tuple(
        (
            fields.link("nodes.node", each.node_id),
            len(each.device_ids),
            fields.chip(each.state),
        )
        for each in ending.live_allocations(row)
    )
    return Effect(sentences, ("Node", "Devices", "State"), held)


def _release(account: Any, row: Reservation, answers: Mapping[str, Any]) -> Outcome:
    caller = callers.for_tenant(cast("Account", account), row.tenant_id)
    after = ending.release(caller, reservation_id=row.pk, if_match=answers["if_match"])
    return Outcome(f"it is {after.state}")


RELEASE = Operation(
    "release",
    "Release",
    _release_effect,
    _release,
    offered=lambda row: row.state in RELEASABLE,
    harsh=True,
)


def _cancel_series_effect(account: Any, row: Series) -> Effect:
    if row.state != SeriesState.ACTIVE:
        return Effect((f"Nothing: it is {row.state} already.",))
    coming = [each for each in queries.occurrences(row) if each.state in (S.PENDING, S.PLACED)]
    return Effect(
        (
            "Its occurrences that have not begun are cancelled, and no more are booked.",
            "One that runs now stays until its end.",
        ),
        ("Occurrence", "Begins"),
        tuple(
            (fields.link("reservations.reservation", each.pk), fields.instant(each.occurrence_at))
            for each in coming
        ),
    )


def _cancel_series(account: Any, row: Series, answers: Mapping[str, Any]) -> Outcome:
    caller = callers.for_tenant(cast("Account", account), row.tenant_id)
    cancelling.cancel(caller, series_id=row.pk, if_match=answers["if_match"])
    return Outcome("no more of its occurrences are booked")


CANCEL_SERIES = Operation(
    "cancel",
    "Cancel",
    _cancel_series_effect,
    _cancel_series,
    offered=lambda row: row.state == SeriesState.ACTIVE,
    harsh=True,
)


class Allocations(ReadOnlyTable):
    """Its part on each node."""

    model = Allocation
    links = {"id": "reservations.allocation", "node_id": "nodes.node", "device_ids": "nodes.device"}
    columns = ("id", "node_id", "device_ids", "state", "reason", "ended_at")
    ordering = ("id",)


class Users(ReadOnlyTable):
    """Who may use it, beside its owner."""

    model = ReservationUser
    links = {"account_id": "iam.account"}
    columns = ("account_id", "added_at")
    ordering = ("account_id",)


@admin.register(Reservation)
class ReservationAdmin(ReadOnlyAdmin):
    """What tenants claim, newest first."""

    list_display = (
        "id",
        "state",
        "tenant",
        "pool",
        "owner",
        "gpu_milli",
        "starts_at",
        "ends_at",
        "created_at",
    )
    list_select_related = ("tenant", "pool", "owner")
    list_filter = (one_of("state", states.ReservationState),)
    search_fields = ("id__exact", "pool__id__exact", "tenant__slug__exact")
    search_help_text = "Exact id, exact id of the pool, or slug of the tenant"
    ordering = ("-created_at", "-id")
    inlines = (Allocations, Users)
    operations = (RELEASE,)
    also = ("events",)
    long = True

    def events(self, row: Reservation) -> object:
        """What happened to it, the newest first."""
        found = events.for_subject(f"reservation/{row.pk}", limit=EVENTS_SHOWN)
        return fields.table(
            ("Time", "Event"), ((fields.instant(each.time), each.type) for each in found)
        )


@admin.register(Series)
class SeriesAdmin(ReadOnlyAdmin):
    """Reservations that repeat, newest first."""

    list_display = (
        "id",
        "state",
        "tenant",
        "pool",
        "owner",
        "rule",
        "time_zone",
        "next_at",
        "created_at",
    )
    list_select_related = ("tenant", "pool", "owner")
    list_filter = (one_of("state", states.SeriesState),)
    search_fields = ("id__exact", "pool__id__exact", "tenant__slug__exact")
    search_help_text = "Exact id, exact id of the pool, or slug of the tenant"
    ordering = ("-created_at", "-id")
    operations = (CANCEL_SERIES,)
    also = ("occurrences", "events")
    long = True

    def occurrences(self, row: Series) -> object:
        """Those ahead that are near enough, and the latest before."""
        return fields.table(
            ("Begins", "Reservation", "State", "Reason"),
            (
                (
                    fields.instant(each.occurrence_at),
                    fields.link("reservations.reservation", each.pk),
                    fields.chip(each.state),
                    each.reason or ", ".join(found["reason"] for found in each.conditions),
                )
                for each in queries.occurrences(row)
            ),
        )

    def events(self, row: Series) -> object:
        """What happened to it, the newest first."""
        found = events.for_subject(f"series/{row.pk}", limit=EVENTS_SHOWN)
        return fields.table(
            ("Time", "Event"), ((fields.instant(each.time), each.type) for each in found)
        )


@admin.register(Allocation)
class AllocationAdmin(ReadOnlyAdmin):
    """Parts of reservations, by node."""

    list_display = ("id", "reservation", "node_id", "state", "created_at", "ended_at")
    list_filter = (one_of("state", states.AllocationState),)
    links = {"node_id": "nodes.node", "device_ids": "nodes.device"}
    search_fields = ("id__exact", "reservation__id__exact", "node_id__exact")
    search_help_text = "Exact id of it, of its reservation or of its node"
    ordering = ("-id",)
    long = True


def _revocation_effect(account: Any, row: CalendarFeed) -> Effect:
    sentences = (
        "Calendar programs that read this address find nothing there from now on.",
        "It cannot be undone; its owner can make another one.",
    )
    read = fields.instant(row.last_read_at)
    return Effect(sentences, ("Feed", "Of", "Last read"), ((row.pk, row.account.username, read),))


def _revoke(account: Any, row: CalendarFeed, answers: Mapping[str, Any]) -> Outcome:
    keeping.revoke(callers.for_tenant(cast("Account", account), row.tenant_id), row.pk)
    return Outcome("revoked")


REVOKE = Operation(
    "revoke",
    "Revoke",
    _revocation_effect,
    _revoke,
    offered=lambda row: row.revoked_at is None,
    harsh=True,
)


@admin.register(CalendarFeed)
class CalendarFeedAdmin(ReadOnlyAdmin):
    """Calendar feeds, without anything that could be used to read one."""

    list_display = ("id", "account", "tenant", "pool", "last_read_at", "revoked_at")
    list_select_related = ("account", "tenant", "pool")
    search_fields = ("id__exact", "account__username__exact")
    search_help_text = "Exact id, or exact name of an account"
    ordering = ("-id",)
    hidden = ("secret_hash",)
    operations = (REVOKE,)


@admin.register(Confirmation)
class ConfirmationAdmin(ReadOnlyAdmin):
    """What agents asked their people for, and what these answered: nobody else does."""

    list_display = (
        "id",
        "state",
        "agent",
        "account",
        "tenant",
        "action",
        "resource_id",
        "expires_at",
    )
    list_select_related = ("account", "tenant")
    list_filter = (one_of("state", states.ConfirmationState),)
    search_fields = ("id__exact", "resource_id__exact", "account__username__exact")
    search_help_text = "Exact id, exact id of a reservation or series, or exact name of an account"
    ordering = ("-id",)
