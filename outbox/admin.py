"""Operators' registers of the outbox: what happened, and how far each reader has come."""

from django.contrib import admin

from bettercompute.operators import fields
from bettercompute.operators.registers import ReadOnlyAdmin
from outbox.models import Cursor, Event

# What the first part of a subject names, where that has a page.
SUBJECTS = {
    "reservation": "reservations.reservation",
    "node": "nodes.node",
    "device": "nodes.device",
}


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    """What happened, newest first. They are many: found by subject or id, never counted."""

    list_display = ("seq", "time", "type", "subject_page", "tenant_id")
    links = {"tenant_id": "iam.tenant"}
    search_fields = ("id__exact", "subject__exact")
    search_help_text = "Exact event id, or subject such as reservation/rsv_…"
    ordering = ("-seq",)
    also = ("subject_page",)
    long = True

    @admin.display(description="about")
    def subject_page(self, row: Event) -> object:
        """What the event is about."""
        kind, _, key = row.subject.partition("/")
        return fields.link(SUBJECTS.get(kind, ""), key, row.subject)


@admin.register(Cursor)
class CursorAdmin(ReadOnlyAdmin):
    """How far each sink has read."""

    list_display = ("sink", "txid", "seq", "moved_at")
    ordering = ("sink",)
