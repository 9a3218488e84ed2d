"""Operators' registers of the audit, which nobody changes."""

from typing import Any

from django.contrib import admin

from bettercompute.audit.models import Entry, Seal
from bettercompute.operators import fields
from bettercompute.operators.registers import ReadOnlyAdmin
from bettercompute.wire import audit as wire

# What an entry is about, where that has a page.
OBJECTS = {
    "reservation": "reservations.reservation",
    "series": "reservations.series",
    "node": "nodes.node",
    "device": "nodes.device",
    "pool": "pools.pool",
    "budget": "pools.budget",
    "token": "iam.apitoken",
    "policy": "iam.policy",
    "account": "iam.account",
    "tenant": "iam.tenant",
}


@admin.register(Entry)
class EntryAdmin(ReadOnlyAdmin):
    """Who did what, from where, and what was refused; newest first."""

    list_display = ("at", "who", "action", "thing", "outcome", "code", "address")
    list_filter = ("outcome", "via")
    links = {"tenant_id": "iam.tenant", "account_id": "iam.account", "token_id": "iam.apitoken"}
    search_fields = ("object_id__exact", "account_id__exact", "request_id__exact", "id__exact")
    search_help_text = "Exact id of what it was done to, of the account, of the request or entry"
    ordering = ("-at", "-seq")
    also = ("thing",)
    hidden = ("mac",)
    long = True

    @admin.display(description="who")
    def who(self, row: Any) -> str:
        """The account, and which agent of it."""
        return wire.actor(row.username, row.detail)

    @admin.display(description="object")
    def thing(self, row: Any) -> object:
        """What it was done to."""
        name = f"{row.object_kind} {row.object_id}".strip()
        return fields.link(OBJECTS.get(row.object_kind, ""), row.object_id, name)


@admin.register(Seal)
class SealAdmin(ReadOnlyAdmin):
    """The chain that shows whether anything in the audit was changed or taken out."""

    list_display = ("number", "sealed_at", "count", "removed_at")
    ordering = ("-number",)
    hidden = ("root", "digest")
    long = True
