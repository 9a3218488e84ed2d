"""Operators' pages of planned maintenance: announcing it, whom it meets, calling it off (N18)."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.contrib import admin

from bettercompute import clock, durations
from bettercompute.iam import callers
from bettercompute.iam.callers import Caller
from bettercompute.operators import fields
from bettercompute.operators.operations import (
    REASON_MAX,
    Effect,
    Operation,
    Outcome,
    ReasonForm,
)
from bettercompute.operators.registers import ReadOnlyAdmin, ReadOnlyTable
from nodes import maintenance
from nodes.maintenance import Held, Place
from nodes.models import MaintenanceWindow
from nodes.operations import maintenance as operation
from nodes.operations.maintenance import Planned

HEADINGS = ("Reservation", "Node", "Devices", "From", "Until")
SHOWN_MAX = 200


class AnnounceForm(ReasonForm):
    """When, and how long; the reason is what everybody reads who may book there."""

    start = forms.DateTimeField(
        help_text="In UTC: 2026-03-02 09:00.",
        widget=forms.DateTimeInput(attrs={"class": "vTextField", "autocomplete": "off"}),
    )
    duration = forms.CharField(
        max_length=60,
        help_text="Such as 4h or 2d.",
        widget=forms.TextInput(attrs={"class": "vTextField", "autocomplete": "off"}),
    )

    reason = forms.CharField(
        max_length=REASON_MAX,
        help_text="Read by everybody who may book there, and kept in the audit with your name.",
        widget=forms.TextInput(attrs={"class": "vTextField", "autocomplete": "off"}),
    )

    def clean_duration(self) -> timedelta:
        """As the API reads it."""
        try:
            length = timedelta(milliseconds=durations.parse(self.cleaned_data["duration"]))
        except durations.InvalidDuration as error:
            raise forms.ValidationError(str(error)) from error
        except OverflowError:
            length = timedelta.max
        if length > operation.LENGTH_MAX:
            raise forms.ValidationError(f"Must be at most {operation.LENGTH_DAYS_MAX} days.")
        return length

    def clean_start(self) -> datetime:
        """Near enough that an end can be said."""
        start: datetime = self.cleaned_data["start"]
        if start > clock.now() + operation.AHEAD_MAX:
            raise forms.ValidationError("Must be at most 5 years ahead.")
        return start


def announcing(place_of: Callable[[Any], Place]) -> Operation:
    """Announcing it, for rows of a register that says which place a row is."""

    def effect(account: Any, row: Any) -> Effect:
        at = place_of(row)
        operation.access(_caller(account, at), **_named(at))
        held = maintenance.meeting(at, start=clock.now(), end=clock.now() + operation.AHEAD_MAX)
        stays = (
            "What is held there stays. Its holders are told, and what has not begun is moved before"
            " its start where other devices are free."
        )
        whom = "These hold something there, now or later:" if held else "Nobody holds anything."
        sentences = ("No new booking meets it, from this moment on.", stays, whom)
        return _table(sentences, held)

    def apply(account: Any, row: Any, answers: Mapping[str, Any]) -> Outcome:
        at = place_of(row)
        caller = _caller(account, at)
        operation.access(caller, **_named(at))
        start = answers["start"]
        planned = Planned(start, start + answers["duration"], answers["reason"])
        done = operation.announce(caller, at, planned)
        owners = len({each.owner_key for each in done.held})
        return Outcome(
            f"maintenance is announced from {start:%Y-%m-%d %H:%M} UTC; reservations it meets:"
            f" {owners}"
        )

    return Operation("maintain", "Announce maintenance", effect, apply, AnnounceForm)


def node_place(row: Any) -> Place:
    """The place that a node is."""
    return _place(maintenance.place(node_id=row.pk))


def pool_place(row: Any) -> Place:
    """The place that a whole pool is."""
    return _place(maintenance.place(pool_id=row.pk))


def _cancel_effect(account: Any, row: MaintenanceWindow) -> Effect:
    window = operation.access_window(_caller_of(account, row), row.pk)
    return _table(
        ("Its time is booked again, and who waits for this pool is tried at once.",),
        operation.effect(window).held,
    )


def _cancel(account: Any, row: MaintenanceWindow, answers: Mapping[str, Any]) -> Outcome:
    operation.cancel(_caller_of(account, row), row.pk, if_match=answers["if_match"])
    return Outcome("it is called off")


CANCEL = Operation(
    "cancel", "Call off", _cancel_effect, _cancel, offered=lambda row: row.cancelled_at is None
)


class Maintenance(ReadOnlyTable):
    """Planned for the node itself; what its pool has is in the register."""

    model = MaintenanceWindow
    verbose_name_plural = "maintenance"
    columns = ("id", "during", "reason", "announced_by", "cancelled_at")
    links = {"id": "nodes.maintenancewindow"}
    ordering = ("-announced_at",)


@admin.register(MaintenanceWindow)
class MaintenanceWindowAdmin(ReadOnlyAdmin):
    """Planned work on nodes and pools, which new bookings keep clear of."""

    list_display = ("id", "pool", "node", "during", "reason", "announced_by", "cancelled_at")
    list_select_related = ("pool", "node", "announced_by")
    search_fields = ("id__exact", "pool__id__exact", "node__name__exact", "node__id__exact")
    search_help_text = "Exact id, or exact id of the pool or id or name of the node"
    ordering = ("-announced_at", "id")
    operations = (CANCEL,)
    also = ("meets",)

    @admin.display(description="meets, and leaves in place")
    def meets(self, row: MaintenanceWindow) -> object:
        """Whose time it meets."""
        window = maintenance.get(row.pk)
        held = maintenance.meeting(window.place, start=window.start, end=window.end)
        return _table((), held).table or fields.NOTHING


def _table(sentences: tuple[str, ...], held: Sequence[Held]) -> Effect:
    rows = tuple(
        (
            fields.link("reservations.reservation", each.owner_key),
            each.node_name,
            each.devices,
            fields.instant(each.start),
            fields.instant(each.end),
        )
        for each in held[:SHOWN_MAX]
    )
    more = len(held) - len(rows)
    if more > 0:
        sentences = (*sentences, f"{more} more are not shown.")
    return Effect(sentences, HEADINGS, rows)


def _place(found: Place | None) -> Place:
    assert found is not None, "its row was just read"
    return found


def _named(at: Place) -> dict[str, str | None]:
    if at.node_id is not None:
        return {"node_id": at.node_id}
    return {"pool_id": at.pool_id}


def _caller(account: Any, at: Place) -> Caller:
    """The operator on behalf of the pool's owner."""
    return callers.for_tenant(account, at.tenant_id)


def _caller_of(account: Any, row: MaintenanceWindow) -> Caller:
    return callers.for_tenant(account, row.pool.tenant_id)
