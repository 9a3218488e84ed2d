"""The console's pages of API tokens: the list, the form of a new one, one with its end."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from bettercompute import clock, errors
from bettercompute.console.tokens import form, pages
from bettercompute.console.tokens.form import Form, Wanted
from bettercompute.iam import api, delegation, tokens
from bettercompute.iam.callers import Caller
from bettercompute.ids import Drawn
from bettercompute.pages import once, onetime, rendering, visitors
from bettercompute.pages.visitors import Visitor

SECTION = "tokens"
SHOWN_MAX = 50
PREFIX = "tok"


@require_safe
@visitors.required
def index(request: HttpRequest, visitor: Visitor) -> HttpResponse:
    """One's own tokens, for an admin all of the tenant's; the newest first."""
    state = "all" if request.GET.get("state") == "all" else ""
    found = tokens.visible(visitor.caller)
    if not state:
        found = tokens.usable(found, now=visitor.now)
    if after := request.GET.get("after", ""):
        found = found.filter(pk__lt=after)
    rows = list(found[: SHOWN_MAX + 1])
    page = pages.listing(
        [api.token_answer(token) for token in rows[:SHOWN_MAX]],
        visitor.reader,
        state=state,
        of_everybody=visitor.caller.role == "admin",
        more=len(rows) > SHOWN_MAX,
    )
    return rendering.render(request, "tokens/list.html", page, section=SECTION)


@require_http_methods(["GET", "HEAD", "POST"])
@visitors.required
def new(request: HttpRequest, visitor: Visitor) -> HttpResponse:
    """The form of a new one; a post makes it and leads to its page, which shows its text once."""
    if request.method != "POST":
        return _form(request, visitor, form.empty())
    try:
        wanted = form.read(
            request.POST, tenant_id=visitor.caller.tenant_id, now_ms=clock.to_ms(visitor.now)
        )
        drawn = once.drawn(request, PREFIX, visitor)
        made = once.make(
            request,
            drawn.id,
            exists=tokens.visible(visitor.caller).filter(pk=drawn.id).exists,
            create=lambda: _make(visitor.caller, wanted, drawn),
        )
    except errors.InvalidInput as refusal:
        return _form(request, visitor, form.refused(request.POST, refusal), status=400)
    secret = tokens.plaintext(drawn)
    if not made and not tokens.opens(visitor.caller, drawn, now=visitor.now):
        secret = ""
    here = reverse("token", args=[drawn.id])
    return onetime.lead_to(request, here, secret=secret, visitor=visitor)


def _make(caller: Caller, wanted: Wanted, drawn: Drawn) -> None:
    until = wanted.token.expires_at
    tokens.create(
        caller,
        name=wanted.token.name,
        expires_at=None if until is None else clock.from_ms(until),
        requests_per_second=wanted.requests_per_second,
        delegated=delegation.asked(wanted.token.delegation),
        drawn=drawn,
    )


@require_safe
@visitors.required
def detail(request: HttpRequest, visitor: Visitor, token_id: str) -> HttpResponse:
    """One token; its text where it has just been made."""
    token = tokens.get(visitor.caller, token_id)
    page = pages.detail(
        api.token_answer(token),
        visitor.reader,
        requests_per_second=token.requests_per_second,
        url=request.build_absolute_uri("/").rstrip("/"),
        secret=onetime.take(request, visitor=visitor),
        is_operator=visitor.caller.is_operator,
    )
    answer = rendering.render(request, "tokens/detail.html", page, section=SECTION)
    return onetime.forget(request, answer)


@require_http_methods(["GET", "HEAD", "POST"])
@visitors.required
def revoke(request: HttpRequest, visitor: Visitor, token_id: str) -> HttpResponse:
    """Ask whether to end it; a post does."""
    if request.method == "POST":
        ended = tokens.revoke(visitor.caller, token_id)
        messages.success(request, f"The token {ended.name} is revoked.")
        return redirect("tokens")
    shown = api.token_answer(tokens.get(visitor.caller, token_id))
    page = pages.revocation(shown, visitor.reader)
    return rendering.render(request, "components/confirm.html", page, section=SECTION)


def _form(
    request: HttpRequest, visitor: Visitor, shown: Form, *, status: int = 200
) -> HttpResponse:
    return rendering.render(
        request,
        "tokens/form.html",
        shown,
        section=SECTION,
        once=once.key(request, PREFIX, visitor),
        status=status,
    )
