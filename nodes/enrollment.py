"""How a machine becomes a node's agent (N4): a one-time token for a key of its own."""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from bettercompute import errors, ids, sql
from bettercompute.acts import Thing
from bettercompute.audit import entries
from nodes.protocol import signing

ENROLLMENT = sql.load(__package__, "enrollment")

VALID_SECONDS = 86_400
TOKEN_PREFIX = "bce_"  # noqa: S105  # what every token begins with, so that scanners find them


@dataclass(frozen=True, slots=True)
class EnrolmentToken:
    """Shown once; only its hash is kept."""

    token: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Enrolled:
    """A node has this key from now on."""

    node_id: str
    kid: str


class TokenRefused(errors.Unauthenticated):
    """The enrolment token is unknown, used or expired; ask an operator for a new one."""


class KeyTaken(errors.Conflict):
    """This key belongs to another node, or was revoked; make a new one."""


def create(*, node_id: str, valid_seconds: int = VALID_SECONDS) -> EnrolmentToken:
    """Give out the right to become this node's agent, once."""
    token = TOKEN_PREFIX + secrets.token_urlsafe(32)
    with transaction.atomic():
        row = ENROLLMENT.one(
            "create",
            id=ids.new("enr"),
            node_id=node_id,
            token_hash=_hash(token),
            seconds=valid_seconds,
        )
        assert row is not None
        about = Thing("node", node_id)
        entries.record("compute:nodes:allow-enrolment", about, tenant_id="", until=row[0])
    return EnrolmentToken(token, row[0])


@transaction.atomic
def enroll(*, token: str, public_key: bytes) -> Enrolled:
    """Use the token up and remember the key; the same token and key again get the same answer.

    Raises:
        TokenRefused: the token is not good now.
        KeyTaken: the key is another node's, or was revoked.
    """
    kid = signing.kid(public_key)
    row = ENROLLMENT.one("use", token_hash=_hash(token))
    if row is None:
        again = ENROLLMENT.one("used_with", token_hash=_hash(token), kid=kid)
        if again is None:
            raise TokenRefused
        return Enrolled(again[0], kid)
    (node_id,) = row
    ENROLLMENT.run("add_key", kid=kid, node_id=node_id, public_key=public_key)
    if ENROLLMENT.one("owner_of_key", kid=kid) != (node_id, True):
        raise KeyTaken
    entries.record("compute:nodes:enrol", Thing("node", node_id), tenant_id="", key=kid)
    return Enrolled(node_id, kid)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
