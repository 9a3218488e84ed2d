"""API tokens: ``bct_<id>_<secret>``, shown once, kept only as the SHA-256 of the secret (A2).

The secret has 256 random bits, so a fast hash is enough: there is nothing to guess. A request costs
one query: the token with its account, tenant, role and the policies that bind them.
"""

import hashlib
import hmac
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import models, transaction

from bettercompute import acts, clock, ids, sql
from bettercompute.acts import Thing
from bettercompute.audit import entries
from bettercompute.errors import InvalidInput, NotFound, Unauthenticated
from bettercompute.iam import access, delegation
from bettercompute.iam.callers import Caller, Identity, Seat
from bettercompute.iam.delegation import Delegation
from bettercompute.iam.models import Account, ApiToken, Tenant
from bettercompute.ids import Drawn

TOKENS = sql.load(__package__, "tokens")

NAME_MAX = 100
USE = "iam:tokens:use"
_SHAPE = re.compile(r"bct_([0-9a-z]{26})_([a-z2-7]{52})\Z")
# Compared against when there is no such token, so that both answers take the same steps.
_NO_HASH = "0" * 64


@dataclass(frozen=True, slots=True)
class Found:
    """A valid token: the account it stands for, and its identity."""

    account: Account
    identity: Identity


def mint(
    account: Account,
    tenant: Tenant,
    *,
    name: str,
    expires_at: datetime | None = None,
    requests_per_second: int | None = None,
    delegated: Delegation | None = None,
    drawn: Drawn | None = None,
) -> tuple[ApiToken, str]:
    """A new token for an account at a tenant, and its plaintext, which is never shown again."""
    drawn = drawn or ids.drawn("tok")
    token = ApiToken(
        id=drawn.id,
        tenant=tenant,
        account=account,
        name=name,
        secret_hash=_hash(drawn.letters),
        expires_at=expires_at,
        requests_per_second=requests_per_second,
        agent="" if delegated is None else delegated.agent,
        confirm=[] if delegated is None else sorted(delegated.confirm),
    )
    token.save(force_insert=True)
    token.refresh_from_db(fields=["created_at"])
    return token, plaintext(drawn)


def plaintext(drawn: Drawn) -> str:
    """A token's text."""
    return f"bct_{drawn.id.removeprefix('tok_')}_{drawn.letters}"


def find(plaintext: str) -> Found:
    """The account and seat behind a token.

    Raises:
        Unauthenticated: no such token, or it is revoked or expired, or its account is disabled or
            no longer belongs to the tenant.
    """
    shape = _SHAPE.match(plaintext)
    if shape is None:
        acts.attempt(USE, Thing("token", ""))
        raise Unauthenticated("This is no API token: one looks like bct_<id>_<secret>.")
    acts.attempt(USE, Thing("token", f"tok_{shape[1]}"))
    row = TOKENS.one("find", id=f"tok_{shape[1]}")
    known_hash = _NO_HASH if row is None else row[1]
    matches = hmac.compare_digest(known_hash, _hash(shape[2]))
    if row is None or not matches:
        raise Unauthenticated("This API token does not exist or has been revoked.")
    token_id, _, name, rate, agent, confirm, expired, stale, *rest = row
    account_id, username, is_staff, is_superuser, time_zone, *seat = rest
    if expired:
        raise Unauthenticated("This API token has expired; create a new one.")
    operator = is_staff or is_superuser
    if seat[3] is None and not operator:
        raise Unauthenticated("This API token's account no longer belongs to its tenant.")
    if stale:
        # At most once a minute: using a token must not cost a write on each request.
        TOKENS.run("touch", id=token_id)
    account = _account(
        id=account_id,
        username=username,
        is_staff=is_staff,
        is_superuser=is_superuser,
        is_active=True,
        time_zone=time_zone,
    )
    tenant_id, slug, tenant_name, role, fingerprint = seat
    identity = Identity(
        account_id=account_id,
        username=username,
        is_operator=operator,
        time_zone=time_zone,
        seats=(Seat(tenant_id, slug, tenant_name, role or "admin", fingerprint),),
        token_id=token_id,
        token_name=name,
        requests_per_second=rate,
        delegation=delegation.stored(agent, confirm),
    )
    return Found(account, identity)


def create(
    caller: Caller,
    *,
    name: str,
    expires_at: datetime | None = None,
    requests_per_second: int | None = None,
    delegated: Delegation | None = None,
    drawn: Drawn | None = None,
) -> tuple[ApiToken, str]:
    """A token for the caller's own account at the caller's tenant; with a delegation, an agent's.

    Raises:
        InvalidInput: the name is blank, or it would have expired already.
        AccessDenied: an agent asks for it; only an operator gives a token a limit of requests of
            its own.
    """
    access.require_person(caller)
    if not name.strip():
        raise InvalidInput.at("name", "must not be blank")
    if expires_at is not None and expires_at <= clock.now():
        raise InvalidInput.at("expiresAt", "must be in the future")
    if requests_per_second is not None:
        access.require_operator(caller)
    account = Account.objects.get(pk=caller.account_id)
    tenant = Tenant.objects.get(pk=caller.tenant_id)
    with transaction.atomic():
        token, text = mint(
            account,
            tenant,
            name=name,
            expires_at=expires_at,
            requests_per_second=requests_per_second,
            delegated=delegated,
            drawn=drawn,
        )
        entries.record(
            "iam:tokens:create",
            Thing("token", token.pk),
            name=name,
            until=expires_at,
            **_told(delegated),
        )
    return token, text


def revoke(caller: Caller, token_id: str) -> ApiToken:
    """End a token now. One's own; an admin also those of others at the tenant; an agent its own.

    Revoking again changes nothing.

    Raises:
        NotFound: there is no such token at the caller's tenant, or it is another member's.
        AccessDenied: an agent asks for another token's end.
    """
    if token_id != caller.token_id:
        access.require_person(caller)
    with transaction.atomic(durable=True):
        revoked = TOKENS.run(
            "revoke",
            id=token_id,
            tenant_id=caller.tenant_id,
            account_id=caller.account_id,
            anyones=caller.role == "admin",
        )
        if revoked:
            entries.record("iam:tokens:revoke", Thing("token", token_id))
        return get(caller, token_id)


def limit(token_id: str, *, requests_per_second: int | None) -> None:
    """Give a token a limit of its own from its next request on; None: as for everybody, 0: none."""
    with transaction.atomic():
        token = ApiToken.objects.select_for_update(no_key=True).filter(pk=token_id).first()
        if token is None:
            raise NotFound(f"There is no token {token_id}.")
        before, token.requests_per_second = token.requests_per_second, requests_per_second
        token.save(update_fields=["requests_per_second"])
        about, tenant_id = Thing("token", token_id), token.tenant_id
        entries.record(
            "iam:tokens:limit", about, tenant_id=tenant_id, before=before, after=requests_per_second
        )


def get(caller: Caller, token_id: str) -> ApiToken:
    """One that the caller may see.

    Raises:
        NotFound: there is no such token at the caller's tenant, or it is another member's.
    """
    token = visible(caller).filter(pk=token_id).first()
    if token is None:
        raise NotFound(f"There is no token {token_id}, or you may not see it.")
    return token


def usable(found: "models.QuerySet[ApiToken]", *, now: datetime) -> "models.QuerySet[ApiToken]":
    """Those of them that neither have been revoked nor have expired."""
    return found.filter(revoked_at=None).exclude(expires_at__lte=now)


def opens(caller: Caller, drawn: Drawn, *, now: datetime) -> bool:
    """Whether the text of what was drawn is that of a token that the caller may see and use."""
    found = usable(visible(caller), now=now)
    return found.filter(pk=drawn.id, secret_hash=_hash(drawn.letters)).exists()


def visible(caller: Caller) -> "models.QuerySet[ApiToken]":
    """The tokens the caller may see: own ones, an admin all of the tenant's."""
    tokens = ApiToken.objects.filter(tenant_id=caller.tenant_id)
    if caller.role != "admin":
        tokens = tokens.filter(account_id=caller.account_id)
    return tokens.select_related("account").order_by("-id")


def _told(delegated: Delegation | None) -> dict[str, Any]:
    """What the audit says of a delegation, where there is one."""
    if delegated is None:
        return {}
    return {"delegatedTo": delegated.agent, "confirm": sorted(delegated.confirm)}


def _account(**known: object) -> Account:
    """An account of which only this has been read; the rest would be read when it is asked for."""
    # ``from_db`` takes values in the order of the model's fields, whatever the order of the names.
    names = [field.attname for field in Account._meta.concrete_fields if field.attname in known]
    return Account.from_db("default", names, [known[name] for name in names])


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
