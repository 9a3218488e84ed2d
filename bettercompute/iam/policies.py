"""Policy documents: the platform's (of no tenant) and each tenant's, kept as versioned rows.

A document is checked against the schema before it is stored, so what is stored compiles. A tenant's
document may forbid anything, but permit only what concerns reservations: it must not hand out the
platform's nodes. The shipped policies of each role are code (``policies/default.cedar``) and come
first in every set.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from django.db import IntegrityError, models, transaction
from django.db.models.functions import Length

from bettercompute import ids, sql
from bettercompute.acts import Thing
from bettercompute.audit import entries
from bettercompute.errors import Conflict, InvalidInput, NotFound, PreconditionFailed
from bettercompute.iam import access, cedar, rehearsal
from bettercompute.iam.callers import Caller
from bettercompute.iam.models import Policy

POLICIES = sql.load(__package__, "policies")

COMPILED_SETS_MAX = 256
POLICIES_PER_TENANT_MAX = 100
#: All texts of a tenant. They are compiled together, in the first decision after a change, at some
#: eight seconds a million characters.
CHARACTERS_PER_TENANT_MAX = 128 * 1024
_TENANT_PERMITS = "compute:reservations:"


@dataclass(frozen=True, slots=True)
class Draft:
    """What a policy document says: its name, its text, whether it applies."""

    name: str
    text: str
    enabled: bool = True


class PolicyNameTaken(Conflict):
    """There is a policy of this name already; change that one, or choose another name."""


def validate(text: str, *, platform: bool = False) -> None:
    """Refuse a text that could not be used.

    Raises:
        InvalidInput: with the line and what is wrong there.
    """
    try:
        documents = cedar.check(text)
    except cedar.InvalidPolicy as error:
        raise InvalidInput.at("text", f"line {error.line}: {error.message}") from error
    failing = rehearsal.fault(text)
    if failing is not None:
        raise InvalidInput.at("text", failing)
    if platform:
        return
    for document in documents:
        if document["effect"] == "permit" and not _permits_only_reservations(document):
            raise InvalidInput.at(
                "text",
                "a tenant's permit must name actions of compute:reservations; anything may be"
                " forbidden",
            )


def create(
    caller: Caller, *, draft: Draft, platform: bool = False, policy_id: str | None = None
) -> Policy:
    """Store a new policy of the caller's tenant, or of the platform.

    ``policy_id`` is given where the same wish may come twice: it makes one.

    Raises:
        AccessDenied: the caller is no admin of the tenant, or no operator for the platform's.
        InvalidInput: the text is not valid.
        PolicyNameTaken: another one has this name.
    """
    tenant_id = None if platform else caller.tenant_id
    _require_writer(caller, tenant_id)
    validate(draft.text, platform=platform)
    with _name_taken_is_conflict(draft), transaction.atomic(durable=True):
        _require_room(tenant_id, draft, replaced=None)
        policy = Policy(
            id=policy_id or ids.new("pol"),
            tenant_id=tenant_id,
            name=draft.name,
            text=draft.text,
            enabled=draft.enabled,
        )
        policy.save(force_insert=True)
        policy.refresh_from_db(fields=["created_at"])
        _record("create", policy, after=_told(policy))
    return policy


def replace(
    caller: Caller, policy_id: str, *, draft: Draft, if_match: frozenset[int] | None = None
) -> Policy:
    """Store a new version of a policy; it binds from the next request on.

    Raises:
        NotFound: there is no such policy.
        PreconditionFailed: its version is not one of ``if_match``.
        AccessDenied, InvalidInput, PolicyNameTaken: as for ``create``.
    """
    with _name_taken_is_conflict(draft), transaction.atomic(durable=True):
        policy = _lock_for_writing(caller, policy_id, if_match)
        validate(draft.text, platform=policy.tenant_id is None)
        _require_room(policy.tenant_id, draft, replaced=policy.pk)
        before = _told(policy)
        policy.name, policy.text, policy.enabled = draft.name, draft.text, draft.enabled
        policy.version += 1
        policy.save(update_fields=["name", "text", "enabled", "version"])
        _record("replace", policy, before=before, after=_told(policy))
    return policy


def delete(caller: Caller, policy_id: str, *, if_match: frozenset[int] | None = None) -> None:
    """Remove a policy; it stops applying with the next request."""
    with transaction.atomic(durable=True):
        policy = _lock_for_writing(caller, policy_id, if_match)
        _record("delete", policy, before=_told(policy))
        policy.delete()


def get(caller: Caller, policy_id: str) -> Policy:
    """A policy that binds the caller's tenant."""
    policy = visible(caller).filter(pk=policy_id).first()
    if policy is None:
        raise NotFound(f"There is no policy {policy_id}, or you may not see it.")
    return policy


def visible(caller: Caller) -> models.QuerySet[Policy]:
    """The policies that bind the caller's tenant, the platform's first."""
    binding = models.Q(tenant_id=caller.tenant_id) | models.Q(tenant_id=None)
    return Policy.objects.filter(binding).order_by(
        models.F("tenant_id").asc(nulls_first=True), "name", "id"
    )


def named(caller: Caller, names: Sequence[str]) -> list[Policy]:
    """The documents in which the policies with these names stand (``team-limits/h100-limit``)."""
    return [
        policy
        for policy in visible(caller).filter(enabled=True)
        if any(name.startswith(f"{policy.name}/") for name in names)
    ]


_compiled: OrderedDict[tuple[str, str], cedar.CompiledSet] = OrderedDict()
_compiled_guard = threading.Lock()


def compiled(tenant_id: str, fingerprint: str | None = None) -> cedar.CompiledSet:
    """The set that binds a tenant; without a fingerprint, one query reads the present one."""
    if fingerprint is None:
        (fingerprint,) = POLICIES.one("fingerprint", tenant_id=tenant_id) or ("",)
    # Without documents of their own all tenants share the shipped set.
    key = (tenant_id, fingerprint) if fingerprint else ("", "")
    with _compiled_guard:
        known = _compiled.get(key)
        if known is not None:
            _compiled.move_to_end(key)
            return known
    fresh_key, texts = _read_texts(tenant_id) if fingerprint else (key, [])
    fresh = cedar.compile_set([("default", cedar.default_text()), *texts])
    with _compiled_guard:
        # Stored under what was read, which may be newer than what was asked for.
        _compiled[fresh_key] = fresh
        while len(_compiled) > COMPILED_SETS_MAX:
            _compiled.popitem(last=False)
    return fresh


def compiled_with(
    caller: Caller, *, draft: Draft | None, replaces: str | None
) -> cedar.CompiledSet:
    """The caller's set as it would be with a draft in it, for a dry run."""
    texts = [
        (policy.name, policy.text)
        for policy in visible(caller)
        if policy.enabled and policy.pk != replaces
    ]
    drafted = [] if draft is None else [(draft.name, draft.text)]
    return cedar.compile_set([("default", cedar.default_text()), *texts, *drafted])


def _read_texts(tenant_id: str) -> tuple[tuple[str, str], list[tuple[str, str]]]:
    rows = POLICIES.all("texts", tenant_id=tenant_id)
    fingerprint = ",".join(f"{policy_id}:{version}" for policy_id, version, _, _ in rows)
    key = (tenant_id, fingerprint) if fingerprint else ("", "")
    return key, [(name, text) for _, _, name, text in rows]


def _record(verb: str, policy: Policy, **detail: object) -> None:
    about = Thing("policy", policy.pk)
    entries.record(f"iam:policies:{verb}", about, tenant_id=policy.tenant_id or "", **detail)


def _told(policy: Policy) -> dict[str, object]:
    """What the audit says of a version; the text's digest says whether another is the same."""
    digest = hashlib.sha256(policy.text.encode()).hexdigest()
    enabled, version = policy.enabled, policy.version
    told = {"name": policy.name, "enabled": enabled, "version": version, "textSha256": digest}
    return {**told, "text": policy.text}


def _require_writer(caller: Caller, tenant_id: str | None) -> None:
    access.require_person(caller)
    if tenant_id is None:
        access.require_operator(caller)
    else:
        access.require_admin(caller)


def _require_room(tenant_id: str | None, draft: Draft, *, replaced: str | None) -> None:
    """Checked before the write and not again: a soft limit may be overshot by a few."""
    others = Policy.objects.filter(tenant_id=tenant_id).exclude(pk=replaced)
    found = others.aggregate(count=models.Count("pk"), characters=models.Sum(Length("text")))
    if found["count"] >= POLICIES_PER_TENANT_MAX:
        raise Conflict(f"There are {POLICIES_PER_TENANT_MAX} policies; delete one first.")
    if (found["characters"] or 0) + len(draft.text) > CHARACTERS_PER_TENANT_MAX:
        raise Conflict(
            f"All policies together may have {CHARACTERS_PER_TENANT_MAX} characters; delete one"
            " first."
        )


def _lock_for_writing(caller: Caller, policy_id: str, if_match: frozenset[int] | None) -> Policy:
    policy = visible(caller).select_for_update(no_key=True).filter(pk=policy_id).first()
    if policy is None:
        raise NotFound(f"There is no policy {policy_id}, or you may not see it.")
    _require_writer(caller, policy.tenant_id)
    if if_match is not None and policy.version not in if_match:
        raise PreconditionFailed(version=policy.version)
    return policy


@contextmanager
def _name_taken_is_conflict(draft: Draft) -> Iterator[None]:
    try:
        yield
    except IntegrityError as error:
        if "policy_name_once_per_tenant" not in str(error):
            raise
        raise PolicyNameTaken(name=draft.name) from error


def _permits_only_reservations(document: cedar.Json) -> bool:
    scope = document["action"]
    named = scope.get("entities") or ([scope["entity"]] if "entity" in scope else [])
    return bool(named) and all(entity["id"].startswith(_TENANT_PERMITS) for entity in named)
