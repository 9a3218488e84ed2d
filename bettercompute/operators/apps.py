"""Django's admin with our site in it; the audit is the one register of no app of ours."""

from django.contrib.admin.apps import AdminConfig


class OperatorsConfig(AdminConfig):
    """The admin of those who run the platform."""

    default_site = "bettercompute.operators.site.OperatorSite"

    def ready(self) -> None:
        """Let every app register its tables, then add the audit."""
        super().ready()
        from django.contrib import admin
        from django.contrib.admin.models import LogEntry
        from django.contrib.auth.models import Group

        from bettercompute.operators.admin import AuditAdmin

        admin.site.register(LogEntry, AuditAdmin)
        admin.site.unregister(Group)  # who may do what is memberships and policies
