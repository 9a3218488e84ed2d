"""The console's pages of webhooks: the list, one with what it was sent, its form, one delivery."""

import re
from datetime import timedelta

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from bettercompute import acts, errors
from bettercompute.iam.callers import Caller
from bettercompute.ids import Drawn
from bettercompute.pages import once, onetime, rendering, visitors
from bettercompute.pages.parts import Notice, Question
from bettercompute.pages.visitors import Visitor
from bettercompute.wire import webhooks as wire
from outbox.webhooks import endpoints, form, pages, queries, resending, signing
from outbox.webhooks.endpoints import Draft
from outbox.webhooks.form import Form
from outbox.webhooks.queries import Filters

SECTION = "webhooks"
PREFIX = "whk"
SHOWN_MAX = 200  # more than there may be of one tenant
DELIVERIES_SHOWN = 25
_SPANS = {"1h": timedelta(hours=1), "1d": timedelta(days=1), "3d": timedelta(days=3)}
_VERSION = re.compile(r"[0-9]{1,18}\Z", re.ASCII)


@require_safe
@visitors.required
def index(request: HttpRequest, visitor: Visitor) -> HttpResponse:
    """The tenant's webhooks; an operator sees the platform's beside them."""
    caller = visitor.caller
    platform: list[wire.Webhook] = []
    if caller.is_operator:
        platform = queries.page(caller, platform=True, limit=SHOWN_MAX).items
    own = queries.page(caller, limit=SHOWN_MAX).items
    page = pages.listing(own, platform, visitor.reader)
    return rendering.render(request, "webhooks/list.html", page, section=SECTION)


@require_http_methods(["GET", "HEAD", "POST"])
@visitors.required
def new(request: HttpRequest, visitor: Visitor) -> HttpResponse:
    """The form of a new one; a post makes it and leads to its page, which shows its secret once."""
    if request.method != "POST":
        return _form(request, visitor, form.empty())
    try:
        wanted = form.read(request.POST, tenant_id=visitor.caller.tenant_id)
        drawn = once.drawn(request, PREFIX, visitor)
        made = once.make(
            request,
            drawn.id,
            exists=endpoints.visible(visitor.caller).filter(pk=drawn.id).exists,
            create=lambda: _make(visitor.caller, wanted, drawn),
        )
    except errors.InvalidInput as refusal:
        return _form(request, visitor, form.refused(request.POST, refusal), status=400)
    secret = signing.of(drawn.secret)
    if not made and not endpoints.signs(visitor.caller, drawn.id, secret):
        secret = ""
    here = reverse("webhook", args=[drawn.id])
    return onetime.lead_to(request, here, secret=secret, visitor=visitor)


def _make(caller: Caller, wanted: wire.WebhookCreate, drawn: Drawn) -> None:
    draft = Draft(wanted.url, wanted.description, wanted.event_types, wanted.subject)
    endpoints.create(caller, draft, platform=wanted.scope == "platform", drawn=drawn)


@require_safe
@visitors.required
def detail(request: HttpRequest, visitor: Visitor, webhook_id: str) -> HttpResponse:
    """One webhook, and what it was sent; its secret where it has just been made."""
    secret = onetime.take(request, visitor=visitor)
    return onetime.forget(request, _detail(request, visitor, webhook_id, secret=secret))


@require_http_methods(["GET", "HEAD", "POST"])
@visitors.required
def edit(request: HttpRequest, visitor: Visitor, webhook_id: str) -> HttpResponse:
    """The form of one there is; a post saves it."""
    shown = queries.answered(endpoints.get(visitor.caller, webhook_id))
    if request.method != "POST":
        return _form(request, visitor, form.of(shown), webhook=shown)
    try:
        wanted = form.read(request.POST, tenant_id=visitor.caller.tenant_id)
        changes = wanted.model_dump(include={"url", "description", "event_types", "subject"})
        endpoints.update(visitor.caller, webhook_id, changes)
    except errors.InvalidInput as refusal:
        refused = form.refused(request.POST, refusal)
        return _form(request, visitor, refused, webhook=shown, status=400)
    return redirect("webhook", webhook_id)


@require_POST
@visitors.required
def test(request: HttpRequest, visitor: Visitor, webhook_id: str) -> HttpResponse:
    """Send it a test event, and show what came of it."""
    try:
        sent = resending.test(visitor.caller, webhook_id)
    except (errors.AccessDenied, errors.Conflict, errors.Unavailable) as refusal:
        return _refused(request, visitor, webhook_id, "Nothing was sent", refusal)
    return redirect("webhook-delivery", webhook_id, sent.id)


@require_http_methods(["GET", "HEAD", "POST"])
@visitors.required
def rotate(request: HttpRequest, visitor: Visitor, webhook_id: str) -> HttpResponse:
    """Ask whether to give it a new secret; a post does, and its page shows it once.

    With ``leaked``, none that it had signs any more.
    """
    refusal, leaked = "", request.GET.get("leaked") == "1"
    if request.method == "POST":
        try:
            _, secret = endpoints.rotate_secret(
                visitor.caller,
                webhook_id,
                expire_previous=leaked,
                if_match=_asked_about(request),
            )
        except (errors.AccessDenied, errors.InvalidState, errors.PreconditionFailed) as error:
            acts.refused(error)
            refusal = error.message
        else:
            here = reverse("webhook", args=[webhook_id])
            return onetime.lead_to(request, here, secret=secret, visitor=visitor)
    shown = queries.answered(endpoints.get(visitor.caller, webhook_id))
    page = pages.rotation(shown, visitor.reader, leaked=leaked, refusal=refusal)
    return _question(request, page)


@require_http_methods(["GET", "HEAD", "POST"])
@visitors.required
def delete(request: HttpRequest, visitor: Visitor, webhook_id: str) -> HttpResponse:
    """Ask whether to end it; a post does."""
    refusal = ""
    shown = queries.answered(endpoints.get(visitor.caller, webhook_id))
    if request.method == "POST":
        try:
            endpoints.delete(visitor.caller, webhook_id)
        except errors.AccessDenied as error:
            acts.refused(error)
            refusal = error.message
        else:
            return redirect("webhooks")
    return _question(request, pages.deletion(shown, refusal=refusal))


@require_POST
@visitors.required
def enable(request: HttpRequest, visitor: Visitor, webhook_id: str) -> HttpResponse:
    """Send to it again, what waited included."""
    return _switch(request, visitor, webhook_id, enabled=True)


@require_POST
@visitors.required
def disable(request: HttpRequest, visitor: Visitor, webhook_id: str) -> HttpResponse:
    """Send nothing to it until somebody enables it."""
    return _switch(request, visitor, webhook_id, enabled=False)


@require_POST
@visitors.required
def redeliver_span(request: HttpRequest, visitor: Visitor, webhook_id: str) -> HttpResponse:
    """Send again what failed in a span that has just ended."""
    span = _SPANS.get(request.POST.get("span", ""))
    endpoints.get(visitor.caller, webhook_id)  # first: what is not theirs is not found
    if span is None:
        raise errors.InvalidInput.at("span", f"is one of {', '.join(_SPANS)}")
    try:
        done = resending.redeliver_range(
            visitor.caller,
            webhook_id,
            since=visitor.now - span,
            until=visitor.now,
            everything=False,
        )
    except (errors.AccessDenied, errors.InvalidState) as refusal:
        return _refused(request, visitor, webhook_id, "Nothing is sent again", refusal)
    told = f"{done.count} sent again." if done.count else "Nothing failed in that time."
    messages.success(request, told + (" There are more: do it again." if done.more else ""))
    return redirect("webhook", webhook_id)


@require_safe
@visitors.required
def delivery(
    request: HttpRequest, visitor: Visitor, webhook_id: str, delivery_id: str
) -> HttpResponse:
    """One delivery, with each attempt and its answer."""
    return _delivery(request, visitor, webhook_id, delivery_id)


@require_POST
@visitors.required
def redeliver(
    request: HttpRequest, visitor: Visitor, webhook_id: str, delivery_id: str
) -> HttpResponse:
    """Send one again, and show it."""
    try:
        resending.redeliver(visitor.caller, webhook_id, delivery_id)
    except (errors.AccessDenied, errors.InvalidState) as refusal:
        acts.refused(refusal)
        notice = Notice("It is not sent again", refusal.message, "red")
        return _delivery(request, visitor, webhook_id, delivery_id, notice=notice)
    return redirect("webhook-delivery", webhook_id, delivery_id)


def _switch(
    request: HttpRequest, visitor: Visitor, webhook_id: str, *, enabled: bool
) -> HttpResponse:
    try:
        endpoints.update(visitor.caller, webhook_id, {}, enabled=enabled)
    except (errors.AccessDenied, errors.InvalidInput) as refusal:
        return _refused(request, visitor, webhook_id, "Nothing was changed", refusal)
    return redirect("webhook", webhook_id)


def _detail(
    request: HttpRequest,
    visitor: Visitor,
    webhook_id: str,
    *,
    notice: Notice | None = None,
    secret: str = "",
) -> HttpResponse:
    state = request.GET.get("state", "")
    state = state if state in pages.DELIVERIES else ""
    found = queries.deliveries_page(
        visitor.caller,
        webhook_id,
        Filters(states=(state,) if state else ()),
        limit=DELIVERIES_SHOWN,
        cursor=request.GET.get("cursor") or None,
    )
    page = pages.detail(
        queries.answered(endpoints.get(visitor.caller, webhook_id)),
        found,
        visitor.reader,
        state=state,
        notice=notice,
        secret=secret,
    )
    status = 409 if notice else 200
    return rendering.render(request, "webhooks/detail.html", page, section=SECTION, status=status)


def _delivery(
    request: HttpRequest,
    visitor: Visitor,
    webhook_id: str,
    delivery_id: str,
    *,
    notice: Notice | None = None,
) -> HttpResponse:
    endpoint = endpoints.get(visitor.caller, webhook_id)
    found = queries.delivery(endpoint, delivery_id)
    page = pages.delivery(queries.answered(endpoint), found, visitor.reader, notice=notice)
    status = 409 if notice else 200
    return rendering.render(request, "webhooks/delivery.html", page, section=SECTION, status=status)


def _form(
    request: HttpRequest,
    visitor: Visitor,
    shown: Form,
    *,
    webhook: wire.Webhook | None = None,
    status: int = 200,
) -> HttpResponse:
    page = pages.Editing(shown, webhook)
    key = once.key(request, PREFIX, visitor) if webhook is None else ""
    return rendering.render(
        request, "webhooks/form.html", page, section=SECTION, once=key, status=status
    )


def _question(request: HttpRequest, page: Question) -> HttpResponse:
    status = 409 if page.refusal else 200
    return rendering.render(
        request, "components/confirm.html", page, section=SECTION, status=status
    )


def _asked_about(request: HttpRequest) -> frozenset[int] | None:
    """The version that the question was about: whoever presses twice does it once."""
    asked = request.GET.get("version", "")
    return frozenset({int(asked)}) if _VERSION.match(asked) else None


def _refused(
    request: HttpRequest, visitor: Visitor, webhook_id: str, title: str, refusal: errors.ApiError
) -> HttpResponse:
    acts.refused(refusal)
    notice = Notice(title, refusal.message, "red")
    return _detail(request, visitor, webhook_id, notice=notice)
