"""The console's addresses."""

from django.urls import path

from bettercompute.console import audit, events, home, pool, preferences, signin
from bettercompute.console.policies import views as policies
from bettercompute.console.tokens import views as tokens
from outbox.webhooks import console as webhooks
from pools import console as pools
from reservations.feeds import console as feeds
from reservations.pages import confirmations_console as confirmations
from reservations.pages import console as reservations
from reservations.pages import ending_console as ending
from reservations.pages import sharing_console as sharing
from reservations.pages import usage_console as usage
from reservations.series import console as series

urlpatterns = [
    path("", home.home, name="home"),
    path("login", signin.sign_in, name="login"),
    path("logout", signin.sign_out, name="logout"),
    path("timezone", preferences.timezone, name="timezone"),
    path("tenant", preferences.tenant, name="tenant"),
    path("pools", pools.listing, name="pools"),
    path("pools/<str:pool_id>", pool.pool, name="pool"),
    path("audit", audit.index, name="audit"),
    path("audit.csv", audit.table, name="audit-csv"),
    path("audit.jsonl", audit.lines, name="audit-jsonl"),
    path("tokens", tokens.index, name="tokens"),
    path("tokens/new", tokens.new, name="token-new"),
    path("tokens/<str:token_id>", tokens.detail, name="token"),
    path("tokens/<str:token_id>/revoke", tokens.revoke, name="token-revoke"),
    path("policies", policies.index, name="policies"),
    path("policies/new", policies.new, name="policy-new"),
    path("policies/shipped", policies.shipped, name="policies-shipped"),
    path("policies/<str:policy_id>", policies.detail, name="policy"),
    path("policies/<str:policy_id>/enable", policies.enable, name="policy-enable"),
    path("policies/<str:policy_id>/disable", policies.disable, name="policy-disable"),
    path("policies/<str:policy_id>/delete", policies.delete, name="policy-delete"),
    path("usage", usage.index, name="usage"),
    path("usage.csv", usage.download, name="usage-csv"),
    path("reserve", reservations.reserve, name="reserve"),
    path("reserve/preview", reservations.preview, name="reserve-preview"),
    path("calendar-feeds", feeds.index, name="calendar-feeds"),
    path("calendar-feeds/<str:feed_id>/revoke", feeds.revoke, name="calendar-feed-revoke"),
    path("confirmations", confirmations.index, name="confirmations"),
    path("confirmations/status", confirmations.status, name="confirmations-status"),
    path("confirmations/<str:confirmation_id>", confirmations.detail, name="confirmation"),
    path(
        "confirmations/<str:confirmation_id>/status",
        confirmations.detail_status,
        name="confirmation-status",
    ),
    path(
        "confirmations/<str:confirmation_id>/approve",
        confirmations.approve,
        name="confirmation-approve",
    ),
    path("confirmations/<str:confirmation_id>/deny", confirmations.deny, name="confirmation-deny"),
    path(
        "confirmations/<str:confirmation_id>/withdraw",
        confirmations.withdraw,
        name="confirmation-withdraw",
    ),
    path("events", events.index, name="events"),
    path("events/catalog", events.catalogue, name="event-catalog"),
    path("events/<str:event_id>", events.detail, name="event"),
    path("webhooks", webhooks.index, name="webhooks"),
    path("webhooks/new", webhooks.new, name="webhook-new"),
    path("webhooks/<str:webhook_id>", webhooks.detail, name="webhook"),
    path("webhooks/<str:webhook_id>/edit", webhooks.edit, name="webhook-edit"),
    path("webhooks/<str:webhook_id>/test", webhooks.test, name="webhook-test"),
    path("webhooks/<str:webhook_id>/enable", webhooks.enable, name="webhook-enable"),
    path("webhooks/<str:webhook_id>/disable", webhooks.disable, name="webhook-disable"),
    path("webhooks/<str:webhook_id>/rotate", webhooks.rotate, name="webhook-rotate"),
    path("webhooks/<str:webhook_id>/delete", webhooks.delete, name="webhook-delete"),
    path("webhooks/<str:webhook_id>/redeliver", webhooks.redeliver_span, name="webhook-redeliver"),
    path(
        "webhooks/<str:webhook_id>/deliveries/<str:delivery_id>",
        webhooks.delivery,
        name="webhook-delivery",
    ),
    path(
        "webhooks/<str:webhook_id>/deliveries/<str:delivery_id>/redeliver",
        webhooks.redeliver,
        name="webhook-delivery-redeliver",
    ),
    path("reservations", reservations.index, name="reservations"),
    path("series", series.index, name="series"),
    path("series/<str:series_id>", series.detail, name="series-detail"),
    path("series/<str:series_id>/cancel", series.cancel, name="series-cancel"),
    path("series/<str:series_id>/skip", series.skip, name="series-skip"),
    path("reservations/<str:reservation_id>", reservations.detail, name="reservation"),
    path(
        "reservations/<str:reservation_id>/status", reservations.status, name="reservation-status"
    ),
    path(
        "reservations/<str:reservation_id>/extend", reservations.extend, name="reservation-extend"
    ),
    path("reservations/<str:reservation_id>/users", sharing.users, name="reservation-users"),
    path("reservations/<str:reservation_id>/renew", reservations.renew, name="reservation-renew"),
    path(
        "reservations/<str:reservation_id>/release",
        ending.release,
        name="reservation-release",
    ),
    path("reservations/<str:reservation_id>/cancel", ending.cancel, name="reservation-cancel"),
]
