"""The console's pages of policies: the list, one with its text, what a text would decide."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from bettercompute import acts, errors
from bettercompute.console.policies import form, pages
from bettercompute.console.policies.form import Pools
from bettercompute.console.policies.pages import Editing
from bettercompute.iam import access, api, cedar, policies
from bettercompute.iam.callers import Caller
from bettercompute.iam.policies import Draft
from bettercompute.pages import once, rendering, visitors
from bettercompute.pages.parts import Notice
from bettercompute.pages.visitors import Visitor
from bettercompute.wire import iam as wire
from pools import supply
from reservations import dryrun
from reservations.pages import calendar

SECTION = "policies"
PREFIX = "pol"
# A text is not lost where it cannot be tried, the pool being gone perhaps.
_UNTRIED = (errors.InvalidInput, errors.AccessDenied, errors.NotFound, errors.Unavailable)


@require_safe
@visitors.required
def index(request: HttpRequest, visitor: Visitor) -> HttpResponse:
    """What binds the tenant: its own policies, the platform's, the shipped ones."""
    found = [api.policy_answer(policy) for policy in policies.visible(visitor.caller)]
    page = pages.listing(found, visitor.reader, may_write=access.is_admin(visitor.caller))
    return rendering.render(request, "policies/list.html", page, section=SECTION)


@require_safe
@visitors.required
def shipped(request: HttpRequest, visitor: Visitor) -> HttpResponse:
    """The policies that come with the product."""
    page = pages.shipped(cedar.default_text())
    return rendering.render(request, "policies/read.html", page, section=SECTION)


@require_http_methods(["GET", "HEAD", "POST"])
@visitors.required
def new(request: HttpRequest, visitor: Visitor) -> HttpResponse:
    """The form of a new one; a post saves it, or tries it."""
    access.require_admin(visitor.caller)
    pools = _pools(visitor.caller)
    examples = cedar.examples()
    if request.method != "POST":
        start = next((each for each in examples if each.name == request.GET.get("from")), None)
        shown = form.empty(pools)
        if start is not None:
            shown = form.empty(pools, name=start.name, text=start.text)
        return _editing(request, visitor, pages.editing(shown, examples=examples))
    if request.POST.get("do") == "try":
        return _trial(request, visitor, None, pools)
    try:
        wanted = form.read(request.POST, tenant_id=visitor.caller.tenant_id)
        policy_id = once.drawn(request, PREFIX, visitor).id
        once.make(
            request,
            policy_id,
            exists=policies.visible(visitor.caller).filter(pk=policy_id).exists,
            create=lambda: _make(request, visitor.caller, wanted, policy_id),
        )
    except (errors.InvalidInput, errors.Conflict) as refusal:
        page = pages.editing(form.refused(request.POST, refusal, pools), examples=examples)
        return _editing(request, visitor, page, status=refusal.status)
    return redirect("policy", policy_id)


def _make(request: HttpRequest, caller: Caller, wanted: wire.PolicyWrite, policy_id: str) -> None:
    made = policies.create(caller, draft=_draft(wanted), policy_id=policy_id)
    messages.success(request, f"{made.name} is saved: {_effect(made.enabled)}")


@require_http_methods(["GET", "HEAD", "POST"])
@visitors.required
def detail(request: HttpRequest, visitor: Visitor, policy_id: str) -> HttpResponse:
    """One policy: for those who may change it as a form; a post saves or tries what is in it."""
    stored = api.policy_answer(policies.get(visitor.caller, policy_id))
    if stored.scope == "platform" or not access.is_admin(visitor.caller):
        return _reading(request, visitor, stored)
    pools = _pools(visitor.caller)
    if request.method != "POST":
        return _editing(request, visitor, pages.editing(form.of(stored, pools), policy=stored))
    if request.POST.get("do") == "try":
        return _trial(request, visitor, stored, pools)
    return _save(request, visitor, stored, pools)


@require_POST
@visitors.required
def enable(request: HttpRequest, visitor: Visitor, policy_id: str) -> HttpResponse:
    """Have it bind again."""
    return _switch(request, visitor, policy_id, enabled=True)


@require_POST
@visitors.required
def disable(request: HttpRequest, visitor: Visitor, policy_id: str) -> HttpResponse:
    """Keep it without asking it."""
    return _switch(request, visitor, policy_id, enabled=False)


@require_http_methods(["GET", "HEAD", "POST"])
@visitors.required
def delete(request: HttpRequest, visitor: Visitor, policy_id: str) -> HttpResponse:
    """Ask whether to end it; a post does."""
    stored = api.policy_answer(policies.get(visitor.caller, policy_id))
    if request.method == "POST":
        policies.delete(visitor.caller, policy_id)
        messages.success(request, f"{stored.name} is deleted.")
        return redirect("policies")
    page = pages.deletion(stored)
    return rendering.render(request, "components/confirm.html", page, section=SECTION)


def _save(
    request: HttpRequest, visitor: Visitor, stored: wire.Policy, pools: Pools
) -> HttpResponse:
    try:
        wanted = form.read(request.POST, tenant_id=visitor.caller.tenant_id)
        saved = policies.replace(
            visitor.caller, stored.id, draft=_draft(wanted), if_match=form.version(request.POST)
        )
    except errors.PreconditionFailed as refusal:
        acts.refused(refusal)
        return _overtaken(request, visitor, stored, pools)
    except (errors.InvalidInput, errors.Conflict) as refusal:
        shown = form.refused(request.POST, refusal, pools)
        return _editing(
            request, visitor, pages.editing(shown, policy=stored), status=refusal.status
        )
    messages.success(request, f"{saved.name} is saved: {_effect(saved.enabled)}")
    return redirect("policy", stored.id)


def _overtaken(
    request: HttpRequest, visitor: Visitor, stored: wire.Policy, pools: Pools
) -> HttpResponse:
    """Somebody else has saved it since: both texts, and saving again means this one."""
    notice = Notice(
        "Nothing was saved: somebody else changed it since you opened it",
        f"Version {stored.version} is below. Saving again replaces it by what is in the form.",
    )
    shown = form.given(request.POST, pools, version=str(stored.version))
    page = pages.editing(shown, policy=stored, notice=notice, stored=stored.text)
    return _editing(request, visitor, page, status=412)


def _trial(
    request: HttpRequest, visitor: Visitor, stored: wire.Policy | None, pools: Pools
) -> HttpResponse:
    examples = cedar.examples() if stored is None else ()
    replaces = None if stored is None else stored.id
    try:
        wanted = form.asked(request.POST, tenant_id=visitor.caller.tenant_id, replaces=replaces)
        verdict = dryrun.judge(visitor.caller, wanted)
    except _UNTRIED as refusal:
        acts.refused(refusal)
        shown = form.refused(request.POST, refusal, pools)
        page = pages.editing(shown, policy=stored, examples=examples)
        return _editing(request, visitor, page, status=refusal.status)
    denied = verdict.recent.denied if verdict.recent else []
    owners = calendar.named(owner_ids={each.owner_identity_id for each in denied}).owners
    trial = pages.trial(verdict, owners, visitor.reader)
    shown = form.given(request.POST, pools)
    page = pages.editing(shown, policy=stored, examples=examples, trial=trial)
    return _editing(request, visitor, page)


def _switch(
    request: HttpRequest, visitor: Visitor, policy_id: str, *, enabled: bool
) -> HttpResponse:
    """A new version with the same text, if it is still the one that was looked at."""
    stored = policies.get(visitor.caller, policy_id)
    draft = Draft(stored.name, stored.text, enabled)
    policies.replace(visitor.caller, policy_id, draft=draft, if_match=form.version(request.POST))
    messages.success(request, f"{stored.name} is changed: {_effect(enabled)}")
    return redirect("policy", policy_id)


def _reading(request: HttpRequest, visitor: Visitor, stored: wire.Policy) -> HttpResponse:
    if request.method == "POST":
        # As the use case would: what is shown to be read is not written here.
        raise errors.AccessDenied("Only those whose policy it is may change it.")
    page = pages.reading(stored, is_operator=visitor.caller.is_operator)
    return rendering.render(request, "policies/read.html", page, section=SECTION)


def _editing(
    request: HttpRequest, visitor: Visitor, page: Editing, *, status: int = 200
) -> HttpResponse:
    key = once.key(request, PREFIX, visitor) if page.policy is None else ""
    return rendering.render(
        request, "policies/form.html", page, section=SECTION, once=key, status=status
    )


def _pools(caller: Caller) -> Pools:
    return [(each.id, each.access.name) for each in supply.bookable(caller)]


def _draft(wanted: wire.PolicyWrite) -> Draft:
    return Draft(wanted.name, wanted.text, wanted.enabled)


def _effect(enabled: bool) -> str:
    return "it binds from now on." if enabled else "it does not bind."
