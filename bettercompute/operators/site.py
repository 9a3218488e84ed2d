"""The operators' site: who gets in, and in what order its registers are listed."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

# What people look for, in the order of their day; not the apps, which are the code's business.
GROUPS: Mapping[str, tuple[str, ...]] = {
    "Machines": (
        "nodes.Node",
        "nodes.Device",
        "nodes.MaintenanceWindow",
        "nodes.Assignment",
        "nodes.DeviceBooking",
        "nodes.ResourceBooking",
        "nodes.Enrollment",
        "nodes.NodeKey",
    ),
    "Reservations": (
        "reservations.Reservation",
        "reservations.Series",
        "reservations.Allocation",
        "reservations.Confirmation",
        "reservations.CalendarFeed",
    ),
    "Supply": (
        "pools.Pool",
        "pools.Offer",
        "pools.CapacityOffer",
        "pools.QuotaUsage",
        "pools.QuotaCharge",
        "pools.Budget",
    ),
    "Who may do what": (
        "iam.Tenant",
        "iam.Account",
        "iam.Membership",
        "iam.ApiToken",
        "iam.Policy",
        "iam.AuthzResource",
        "iam.AuthzChange",
    ),
    "Webhooks": (
        "outbox.WebhookEndpoint",
        "outbox.WebhookDelivery",
        "outbox.WebhookAttempt",
    ),
    "Control plane": (
        "coordination.WorkItem",
        "coordination.Lease",
        "coordination.Heartbeat",
        "outbox.Event",
        "outbox.Cursor",
    ),
    "Audit": ("audit.Entry", "audit.Seal", "admin.LogEntry"),
}


class OperatorSite(admin.AdminSite):
    """One sign-in for console and admin; whoever is no operator sees nothing here."""

    site_header = "Better Compute operators"
    site_title = "Better Compute operators"
    index_title = "Registers"
    index_template = "admin/registers.html"
    enable_nav_sidebar = True

    def has_permission(self, request: HttpRequest) -> bool:
        """Operators only: the same people as ``iam.callers.is_operator``."""
        return is_operator(request.user)

    def login(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """To the console's sign-in and back; somebody signed in who is no operator is refused."""
        onward = _onward(request)
        if self.has_permission(request):
            return redirect(onward)
        if request.user.is_authenticated:
            raise PermissionDenied
        return redirect_to_login(onward, settings.LOGIN_URL)

    def logout(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """The console's sign-out is the only one."""
        return redirect("admin:index")

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        """Registers by group, those of one app where Django asks for it."""
        apps = super().get_app_list(request, app_label)
        registers = {
            f"{app['app_label']}.{register['object_name']}": register
            for app in apps
            for register in app["models"]
        }
        found = {
            name: [registers[label] for label in labels if label in registers]
            for name, labels in GROUPS.items()
        }
        return [_group(name, members) for name, members in found.items() if members]


def is_operator(user: Any) -> bool:
    """Whether somebody runs the platform."""
    return bool(user.is_active and (user.is_staff or user.is_superuser))


def _group(name: str, registers: list[Any]) -> dict[str, Any]:
    return {
        "name": name,
        "app_label": name.lower().replace(" ", "-"),
        "app_url": reverse("admin:index"),
        "has_module_perms": True,
        "models": registers,
    }


def _onward(request: HttpRequest) -> str:
    wanted = request.GET.get("next", "")
    ours = url_has_allowed_host_and_scheme(
        wanted, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return wanted if ours else reverse("admin:index")
