"""Endpoints: who is told of which events, and where (A6).

A tenant's endpoint is told of the tenant's events only; the platform's, which operators keep, of
all. Somebody answers for each: its owner, and once that one has left, nothing is sent until an
admin of the tenant saves it and so takes it over.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet

from bettercompute import acts, clock, errors, ids, sql, transitions
from bettercompute.acts import Thing
from bettercompute.audit import entries
from bettercompute.iam import access, decisions
from bettercompute.iam.callers import Caller
from bettercompute.iam.decisions import Attributes
from bettercompute.ids import Drawn
from bettercompute.states import ENDPOINT, EndpointState
from bettercompute.web import etags
from bettercompute.wire.webhooks import FORMER_SECRETS_MAX
from outbox import catalog, events
from outbox.models import WebhookEndpoint
from outbox.webhooks import former, rules, signing, vault

ENDPOINTS = sql.load(__package__, "endpoints")

READ = "compute:webhooks:read"
MANAGE = "compute:webhooks:manage"
ENDPOINTS_MAX = 100  # of one tenant, and of the platform

REQUEST = "request"
GONE = "gone"
FAILING = "failing"
DESERTED = "owner-left"


class TooManyWebhooks(errors.Conflict):
    """Delete a webhook that nobody needs any more, then make another."""


@dataclass(frozen=True, slots=True)
class Draft:
    """What an endpoint says of itself."""

    url: str
    description: str = ""
    event_types: Sequence[str] = ()
    subject: str = ""


def visible(caller: Caller) -> "QuerySet[WebhookEndpoint]":
    """The endpoints of the caller's tenant; an operator sees the platform's as well."""
    seen = Q(tenant_id=caller.tenant_id)
    if caller.is_operator:
        seen |= Q(tenant_id=None)
    return WebhookEndpoint.objects.filter(seen).exclude(state=EndpointState.DELETED)


def get(caller: Caller, endpoint_id: str, *, action: str = READ) -> WebhookEndpoint:
    """An endpoint that the caller may do this to.

    Raises:
        errors.NotFound: the caller's tenant has no such endpoint.
        errors.AccessDenied: a policy denies it.
    """
    found = visible(caller).filter(pk=endpoint_id).first()
    if found is None:
        raise errors.NotFound(f"There is no webhook {endpoint_id[:100]}, or you may not see it.")
    _require(caller, action, found)
    return found


def signs(caller: Caller, endpoint_id: str, secret: str) -> bool:
    """Whether this is the secret of an endpoint that the caller may see, not one it had before."""
    found = visible(caller).filter(pk=endpoint_id).first()
    try:
        return found is not None and vault.unseal(found.secret) == secret
    except vault.Unreadable:
        return False


def create(
    caller: Caller,
    draft: Draft,
    *,
    platform: bool = False,
    enabled: bool = True,
    drawn: Drawn | None = None,
) -> tuple[WebhookEndpoint, str]:
    """A new endpoint, and the secret that signs what it is sent, which is never shown again.

    Raises:
        errors.InvalidInput: its URL may not be called, or an event type is not in the catalog.
        errors.AccessDenied: a policy denies it, or the platform's are not the caller's business.
        TooManyWebhooks: there are as many as there may be.
    """
    drawn = drawn or ids.drawn("whk")
    endpoint_id, secret = drawn.id, signing.of(drawn.secret)
    tenant_id = None if platform else caller.tenant_id
    if platform:
        access.require_operator(caller)
    else:
        decisions.decide(caller, MANAGE, resource_id=endpoint_id).require()
    with transaction.atomic():
        made = ENDPOINTS.run(
            "create",
            id=endpoint_id,
            tenant_id=tenant_id,
            owner_id=caller.account_id,
            secret=vault.seal(secret),
            enabled=enabled,
            most=ENDPOINTS_MAX,
            **_columns(draft),
        )
        if not made:
            raise TooManyWebhooks(most=ENDPOINTS_MAX)
        record("create", endpoint_id, tenant_id=tenant_id)
    return WebhookEndpoint.objects.get(pk=endpoint_id), secret


def update(
    caller: Caller,
    endpoint_id: str,
    changes: Mapping[str, Any],
    *,
    enabled: bool | None = None,
    if_match: frozenset[int] | None = None,
) -> WebhookEndpoint:
    """Change what it says of itself, and whether it is enabled. What waits for it goes on then.

    Raises:
        errors.NotFound, errors.AccessDenied, errors.InvalidInput: as for ``create``.
        errors.PreconditionFailed: its version is not one of ``if_match`` (C2).
    """
    stored = get(caller, endpoint_id, action=MANAGE)
    known = ("url", "description", "event_types", "subject")
    draft = Draft(**{name: changes.get(name, getattr(stored, name)) for name in known})
    columns = _columns(draft, known=stored.url)
    # What was not named stays as it is then: somebody else may be changing it at this moment.
    named = {name: value if name in changes else None for name, value in columns.items()}
    with transaction.atomic(durable=True):
        version, state, tenant_id, owner_id, stays = _lock(endpoint_id, if_match)
        if changes or not stays:
            row = ENDPOINTS.one(
                "amend",
                id=endpoint_id,
                owner_id=owner_id if stays else caller.account_id,
                **named,
            )
            assert row is not None
            version = row[0]
        wanted = EndpointState(state) if enabled is None else _state(enabled)
        if wanted != state or columns["url"] != stored.url:
            ENDPOINTS.run("hurry", id=endpoint_id)
        told = {"changed": sorted(changes), "enabled": enabled}
        if wanted == state:
            record("update", endpoint_id, tenant_id=tenant_id, **told)
        else:
            _set_enabled(endpoint_id, version, enabled=wanted == EndpointState.ENABLED)
            with acts.called(_name("update"), **told):
                _tell(endpoint_id, wanted, tenant_id=tenant_id)
    return WebhookEndpoint.objects.get(pk=endpoint_id)


def delete(caller: Caller, endpoint_id: str, *, if_match: frozenset[int] | None = None) -> None:
    """End it: nothing is sent to it any more, its secrets are gone, what it was sent is not shown.

    Raises:
        errors.NotFound, errors.AccessDenied, errors.PreconditionFailed: as for ``update``.
    """
    get(caller, endpoint_id, action=MANAGE)
    with transaction.atomic(durable=True):
        version, state, tenant_id, *_ = _lock(endpoint_id, if_match)
        ENDPOINTS.run("forget_secrets", id=endpoint_id)
        transitions.move(
            ENDPOINT,
            row_id=endpoint_id,
            version=version,
            before=state,
            after=EndpointState.DELETED,
        )
        with acts.called(_name("delete")):
            _tell(endpoint_id, EndpointState.DELETED, tenant_id=tenant_id)


def rotate_secret(
    caller: Caller,
    endpoint_id: str,
    *,
    expire_previous: bool = False,
    if_match: frozenset[int] | None = None,
) -> tuple[WebhookEndpoint, str]:
    """A new secret, shown this once.

    The one so far signs beside it for a day, as each does that was replaced, whatever comes after
    it; or none of them signs any more.

    Raises:
        errors.NotFound, errors.AccessDenied, errors.PreconditionFailed: as for ``update``.
        former.TooManySecrets: as many former ones sign as may; none of them is ended unasked.
    """
    get(caller, endpoint_id, action=MANAGE)
    secret = signing.fresh()
    with transaction.atomic(durable=True):
        _, _, tenant_id, *_ = _lock(endpoint_id, if_match)
        record("rotate-secret", endpoint_id, tenant_id=tenant_id)
        if expire_previous:
            ENDPOINTS.run("replace_leaked", id=endpoint_id, secret=vault.seal(secret))
        else:
            _replace(endpoint_id, secret)
    return WebhookEndpoint.objects.get(pk=endpoint_id), secret


def disable(endpoint_id: str, *, version: int, tenant_id: str | None, reason: str) -> None:
    """Send nothing more, on our own account; in the caller's transaction, which has it locked."""
    _set_enabled(endpoint_id, version, enabled=False, reason=reason)
    _tell(endpoint_id, EndpointState.DISABLED, tenant_id=tenant_id, reason=reason)


def disable_by_operator(endpoint_id: str) -> None:
    """Send nothing more until somebody who manages it enables it again.

    Raises:
        errors.NotFound: there is no such endpoint.
        errors.InvalidState: it is disabled already.
    """
    with transaction.atomic():
        version, state, tenant_id, *_ = _lock(endpoint_id, None)
        if state != EndpointState.ENABLED:
            raise errors.InvalidState("It is disabled already.")
        disable(endpoint_id, version=version, tenant_id=tenant_id, reason=REQUEST)


def disable_deserted() -> int:
    """Disable the endpoints whose owners may not be told any more; answers how many."""
    done = 0
    for (endpoint_id,) in ENDPOINTS.all("deserted"):
        with transaction.atomic():
            row = ENDPOINTS.one("lock", id=endpoint_id)
            if row is None:
                continue
            version, state, tenant_id, _, stays = row
            if state == EndpointState.ENABLED and not stays:
                disable(endpoint_id, version=version, tenant_id=tenant_id, reason=DESERTED)
                done += 1
    return done


def record(verb: str, endpoint_id: str, *, tenant_id: str | None, **detail: object) -> None:
    """Who did this to a webhook, without its address: that may have a secret in it."""
    about = Thing("webhook", endpoint_id)
    entries.record(_name(verb), about, tenant_id=tenant_id or "", **detail)


def _name(verb: str) -> str:
    return f"compute:webhooks:{verb}"


def _tell(
    endpoint_id: str, state: EndpointState, *, tenant_id: str | None, reason: str = REQUEST
) -> None:
    """Publish that it is enabled, disabled or deleted now; with that, who did it is recorded."""
    why = {"reason": reason} if state == EndpointState.DISABLED else {}
    events.publish(
        f"webhook.{state}",
        tenant_id=tenant_id or "",
        subject=f"webhook/{endpoint_id}",
        data={"webhookId": endpoint_id, **why},
    )


def _require(caller: Caller, action: str, endpoint: WebhookEndpoint) -> None:
    if endpoint.tenant_id is None:
        return  # only an operator sees it
    known = Attributes(tenant=endpoint.tenant_id, owner=endpoint.owner_id)
    decisions.decide(caller, action, resource_id=endpoint.pk, attributes=known).require()


def _lock(endpoint_id: str, if_match: frozenset[int] | None) -> tuple[int, str, str, str, bool]:
    row = ENDPOINTS.one("lock", id=endpoint_id)
    if row is None or row[1] == EndpointState.DELETED:
        raise errors.NotFound(f"There is no webhook {endpoint_id}, or you may not see it.")
    version, state, tenant_id, owner_id, stays = row
    etags.require(version, if_match)
    return version, state, tenant_id, owner_id, stays


def _replace(endpoint_id: str, secret: str) -> None:
    done = ENDPOINTS.run(
        "rotate",
        id=endpoint_id,
        secret=vault.seal(secret),
        overlap=former.OVERLAP,
        most=FORMER_SECRETS_MAX,
    )
    if not done:
        stored = WebhookEndpoint.objects.get(pk=endpoint_id)
        raise former.TooManySecrets(until=min(stored.former_until))


def _set_enabled(endpoint_id: str, version: int, *, enabled: bool, reason: str = REQUEST) -> None:
    now = clock.now()
    fresh = {"failures": 0, "failing_since": None, "paused_until": None}
    transitions.move(
        ENDPOINT,
        row_id=endpoint_id,
        version=version,
        before=_state(not enabled),
        after=_state(enabled),
        values={"enabled_at": now, "disabled_at": None, "disabled_reason": "", **fresh}
        if enabled
        else {"disabled_at": now, "disabled_reason": reason},
    )


def _state(enabled: bool) -> EndpointState:
    return EndpointState.ENABLED if enabled else EndpointState.DISABLED


def _columns(draft: Draft, *, known: str = "") -> dict[str, Any]:
    """The draft as it is stored.

    Raises:
        errors.InvalidInput: see ``create``.
    """
    url = rules.accepted(draft.url, known=known)
    for position, name in enumerate(draft.event_types):
        kind, _, verb = name.partition(".")
        if name not in catalog.BY_NAME and not (verb == "*" and kind in catalog.GROUPS):
            raise errors.InvalidInput.at(
                f"eventTypes[{position}]", "no event type; GET /events/catalog lists them"
            )
    return {
        "url": url,
        "description": draft.description,
        "event_types": sorted(set(draft.event_types)),
        "subject": draft.subject,
    }
