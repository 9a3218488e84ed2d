"""Every URL of the product, by hand (A4)."""

from django.contrib import admin
from django.urls import include, path

from bettercompute import auditing, operating
from bettercompute.iam import api as iam
from bettercompute.web import health, metrics_page, openapi
from nodes import api as nodes
from outbox import api as events
from outbox.webhooks import api as webhooks
from pools import api as pools
from reservations import api as reservations
from reservations import maintenance_api as maintenance
from reservations import policy_api as policy
from reservations import usage_api as usage
from reservations.confirming import api as confirming
from reservations.feeds import api as feeds
from reservations.feeds import serving
from reservations.series import api as series

handler400 = "bettercompute.web.pages.bad_request"
handler403 = "bettercompute.web.pages.forbidden"
handler404 = "bettercompute.web.pages.not_found"
handler500 = "bettercompute.web.pages.server_error"

api_v1 = [
    path("whoami", iam.WhoAmIView.as_view()),
    path("members", iam.MembersView.as_view()),
    path("tokens", iam.TokensView.as_view()),
    path("tokens/<str:token_id>/revoke", iam.TokenRevokeView.as_view()),
    path("policies", iam.PoliciesView.as_view()),
    path("policies/dry-run", policy.PolicyDryRunView.as_view()),
    path("policies/examples", iam.PolicyExamplesView.as_view()),
    path("policies/<str:policy_id>", iam.PolicyView.as_view()),
    path("reservations", reservations.ReservationsView.as_view()),
    path("reservations/<str:reservation_id>", reservations.ReservationView.as_view()),
    path("reservations/<str:reservation_id>/renew", reservations.RenewView.as_view()),
    path("reservations/<str:reservation_id>/extend", reservations.ExtendView.as_view()),
    path("reservations/<str:reservation_id>/extension", reservations.ExtensionView.as_view()),
    path("reservations/<str:reservation_id>/users", reservations.UsersView.as_view()),
    path("reservations/<str:reservation_id>/release", reservations.ReleaseView.as_view()),
    path("reservations/<str:reservation_id>/cancel", reservations.CancelView.as_view()),
    path("confirmations", confirming.ConfirmationsView.as_view()),
    path("confirmations/<str:confirmation_id>", confirming.ConfirmationView.as_view()),
    path("confirmations/<str:confirmation_id>/approve", confirming.ApproveView.as_view()),
    path("confirmations/<str:confirmation_id>/deny", confirming.DenyView.as_view()),
    path("confirmations/<str:confirmation_id>/withdraw", confirming.WithdrawView.as_view()),
    path("feeds", feeds.FeedsView.as_view()),
    path("feeds/<str:feed_id>/revoke", feeds.FeedRevokeView.as_view()),
    path("series", series.SeriesListView.as_view()),
    path("series/<str:series_id>", series.SeriesView.as_view()),
    path("series/<str:series_id>/cancel", series.SeriesCancelView.as_view()),
    path("series/<str:series_id>/skip", series.SeriesSkipView.as_view()),
    path("usage", usage.UsageView.as_view()),
    path("budgets", usage.BudgetsView.as_view()),
    path("pools", pools.PoolsView.as_view()),
    path("pools/<str:pool_id>", pools.PoolView.as_view()),
    path("pools/<str:pool_id>/timeline", pools.TimelineView.as_view()),
    path("pools/<str:pool_id>/maintenance", maintenance.PoolMaintenanceView.as_view()),
    path("pools/<str:pool_id>/fragmentation", pools.FragmentationView.as_view()),
    path("capacity/preview", reservations.PreviewView.as_view()),
    path("capacity/offers", reservations.CapacityOffersView.as_view()),
    path("quotas", pools.QuotasView.as_view()),
    path("nodes", nodes.NodesView.as_view()),
    path("nodes/<str:node_id>", nodes.NodeView.as_view()),
    path("nodes/<str:node_id>/cordon", nodes.CordonView.as_view()),
    path("nodes/<str:node_id>/uncordon", nodes.UncordonView.as_view()),
    path("nodes/<str:node_id>/maintenance", maintenance.NodeMaintenanceView.as_view()),
    path("maintenance/<str:maintenance_id>", maintenance.MaintenanceView.as_view()),
    path("maintenance/<str:maintenance_id>/cancel", maintenance.MaintenanceCancelView.as_view()),
    path("webhooks", webhooks.WebhooksView.as_view()),
    path("webhooks/<str:webhook_id>", webhooks.WebhookView.as_view()),
    path("webhooks/<str:webhook_id>/rotate-secret", webhooks.WebhookRotateView.as_view()),
    path("webhooks/<str:webhook_id>/test", webhooks.WebhookTestView.as_view()),
    path("webhooks/<str:webhook_id>/redeliver", webhooks.RedeliverRangeView.as_view()),
    path("webhooks/<str:webhook_id>/deliveries", webhooks.DeliveriesView.as_view()),
    path("webhooks/<str:webhook_id>/deliveries/<str:delivery_id>", webhooks.DeliveryView.as_view()),
    path(
        "webhooks/<str:webhook_id>/deliveries/<str:delivery_id>/redeliver",
        webhooks.RedeliverView.as_view(),
    ),
    path("events", events.EventsView.as_view()),
    path("events/stream", events.EventStreamView.as_view(), name="event-stream"),
    path("events/catalog", events.CatalogView.as_view()),
    path("events/catalog/<str:type_name>", events.CatalogTypeView.as_view()),
    path("events/<str:event_id>", events.EventView.as_view()),
    path("audit", auditing.AuditView.as_view()),
    path("selfcheck", operating.SelfCheckView.as_view()),
    path("leases", operating.LeasesView.as_view()),
    path("openapi.json", openapi.document, name="openapi"),
    path("docs", openapi.page, name="api-docs"),
]

urlpatterns = [
    path("api/v1/", include(api_v1)),
    path("docs/errors", openapi.error_page, name="errors"),
    path("feeds/<slug:address>.ics", serving.serve, name="calendar-feed"),
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    path("metrics", metrics_page.serve),
    path(
        "admin/self-check/",
        admin.site.admin_view(operating.self_check_page),
        name="self-check",
    ),
    path("admin/", admin.site.urls),
    path("", include("bettercompute.console.urls")),
]
