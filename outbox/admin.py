"""Operators' registers of the outbox: what happened, and how far each reader has come."""

from collections.abc import Mapping
from typing import Any

from django.contrib import admin

from bettercompute.operators import fields
from bettercompute.operators.operations import Effect, Operation, Outcome
from bettercompute.operators.registers import ReadOnlyAdmin
from outbox import dispatch
from outbox.models import Cursor, Event, WebhookAttempt, WebhookDelivery, WebhookEndpoint
from outbox.webhooks import registers

# What the first part of a subject names, where that has a page.
SUBJECTS = {
    "reservation": "reservations.reservation",
    "node": "nodes.node",
    "device": "nodes.device",
    "webhook": "outbox.webhookendpoint",
    "confirmation": "reservations.confirmation",
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


def _forget_effect(account: Any, row: Cursor) -> Effect:
    return Effect(
        (
            "Events that only this sink has not read need not be kept for it any longer.",
            "If the sink is used again, it is told every event that is then still kept, once more.",
            "While a worker delivers to it, it cannot be forgotten.",
        ),
        ("Sink", "Transaction", "Sequence", "Moved at"),
        ((row.sink, row.txid, row.seq, fields.instant(row.moved_at)),),
    )


def _forget(account: Any, row: Cursor, answers: Mapping[str, Any]) -> Outcome:
    dispatch.forget(row.sink)
    return Outcome("its cursor is forgotten")


FORGET = Operation("forget", "Forget", _forget_effect, _forget, harsh=True, several=False)


@admin.register(Cursor)
class CursorAdmin(ReadOnlyAdmin):
    """How far each sink has read."""

    list_display = ("sink", "txid", "seq", "moved_at")
    ordering = ("sink",)
    operations = (FORGET,)


admin.site.register(WebhookEndpoint, registers.WebhookEndpointAdmin)
admin.site.register(WebhookDelivery, registers.WebhookDeliveryAdmin)
admin.site.register(WebhookAttempt, registers.WebhookAttemptAdmin)
