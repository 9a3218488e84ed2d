"""The register of what operators did; ``apps`` registers it, since its table is Django's."""

from typing import Any

from django.contrib.admin.models import LogEntry
from django.http import HttpRequest

from bettercompute.operators import fields
from bettercompute.operators.registers import ReadOnlyAdmin


class AuditAdmin(ReadOnlyAdmin):
    """The register of all that operators did here."""

    list_display = ("action_time", "user", "thing", "change_message")
    list_select_related = ("user", "content_type")
    search_fields = ("object_id__exact", "user__username__exact")
    search_help_text = "Exact id of what it was done to, or who did it"
    ordering = ("-id",)
    long = True

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        """What matters of an entry; its flags are the admin's business."""
        return [*self.shown("action_time", "user"), "thing", *self.shown("change_message")]

    def thing(self, row: LogEntry) -> object:
        """What it was done to, where that has a page."""
        if row.content_type is None or not row.object_id:
            return row.object_repr
        model = row.content_type.model_class()
        return (
            row.object_repr
            if model is None
            else fields.link(
                model._meta.label_lower,
                row.object_id,
                f"{model._meta.verbose_name} {row.object_repr}",
            )
        )
