"""Whether those who hold a connection open are still who they were when it was opened.

A request is authenticated once, and a stream is one long request. So whoever keeps streams open
asks here at a bounded interval, for all of its clients in one statement: the token not revoked or
expired, the session not signed out, expired or of an older password, the account active, the
membership not ended. What comes back also says by which policies to decide anew.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from bettercompute import sql
from bettercompute.iam import delegation
from bettercompute.iam.callers import Caller
from bettercompute.iam.models import Account

STANDING = sql.load(__package__, "standing")


@dataclass(frozen=True, slots=True)
class Credential:
    """By what somebody came in, and for which tenant; an empty one is the platform."""

    account_id: str
    tenant_id: str
    token_id: str = ""
    session_key: str = ""
    password_stamp: str = ""  # a session ends with the password it was opened with


@dataclass(frozen=True, slots=True)
class Standing:
    """Who they are now, and how long at most."""

    caller: Caller
    expires_in: timedelta | None


def of_session(account: Account, tenant_id: str, session_key: str) -> Credential:
    """The credential of somebody who is signed in to the console."""
    stamp = hashlib.sha256(account.password.encode()).hexdigest()
    return Credential(account.pk, tenant_id, session_key=session_key, password_stamp=stamp)


def of_token(account_id: str, tenant_id: str, token_id: str) -> Credential:
    """The credential of an API token."""
    return Credential(account_id, tenant_id, token_id=token_id)


def present(credentials: Sequence[Credential]) -> dict[Credential, Standing]:
    """The standing of each that still has one."""
    if not credentials:
        return {}
    rows = STANDING.all(
        "present",
        accounts=[each.account_id for each in credentials],
        tenants=[each.tenant_id for each in credentials],
        tokens=[each.token_id for each in credentials],
        sessions=[each.session_key for each in credentials],
        stamps=[each.password_stamp for each in credentials],
    )
    return {credentials[row[0] - 1]: _standing(credentials[row[0] - 1], row) for row in rows}


def _standing(credential: Credential, row: sql.Row) -> Standing:
    _, role, is_operator, fingerprint, agent, confirm, expires_in = row
    caller = Caller(
        tenant_id=credential.tenant_id,
        account_id=credential.account_id,
        role=role or "admin",  # an operator's seat anywhere
        is_operator=is_operator,
        token_id=credential.token_id or None,
        delegation=delegation.stored(agent, confirm),
        fingerprint=fingerprint,
    )
    return Standing(caller, expires_in)
