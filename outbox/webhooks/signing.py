"""Signing by Standard Webhooks: HMAC-SHA256 over ``id.timestamp.body``. Pure but for the fresh key.

The receiver recomputes it with a secret that both know, and refuses a timestamp too far from its
own clock, so that nobody can send an old message again. After a rotation messages carry a signature
by each secret that signs, and a receiver that knows one of them is satisfied.
"""

import base64
import binascii
import hashlib
import hmac
import secrets as randomness
from collections.abc import Sequence

SECRET_PREFIX = "whsec_"  # noqa: S105  what a secret begins with
KEY_BYTES = 32
KEY_BYTES_MIN = 24
KEY_BYTES_MAX = 64
VERSION = "v1"

ID_HEADER = "webhook-id"
TIMESTAMP_HEADER = "webhook-timestamp"
SIGNATURE_HEADER = "webhook-signature"


def fresh() -> str:
    """A new secret: ``whsec_`` and its key in base64."""
    return of(randomness.token_bytes(KEY_BYTES))


def of(key: bytes) -> str:
    """A key as receivers take it."""
    return SECRET_PREFIX + base64.b64encode(key).decode()


def headers(
    secrets: Sequence[str], *, message_id: str, timestamp: int, body: bytes
) -> dict[str, str]:
    """The three headers of a message; ``timestamp`` is that of the attempt, in seconds."""
    assert secrets, "a message without a signature proves nothing"
    signed = (
        signature(secret, message_id=message_id, timestamp=timestamp, body=body)
        for secret in secrets
    )
    return {
        ID_HEADER: message_id,
        TIMESTAMP_HEADER: str(timestamp),
        SIGNATURE_HEADER: " ".join(signed),
    }


def signature(secret: str, *, message_id: str, timestamp: int, body: bytes) -> str:
    """One signature, as it stands in the header.

    Raises:
        ValueError: this cannot be a secret, or an id with a dot would leave open what was signed.
    """
    if not message_id or "." in message_id:
        raise ValueError(f"a message's id has no dot: {message_id!r}")
    content = f"{message_id}.{timestamp}.".encode() + body
    digest = hmac.digest(key(secret), content, hashlib.sha256)
    return f"{VERSION},{base64.b64encode(digest).decode()}"


def key(secret: str) -> bytes:
    """The bytes that a secret stands for.

    Raises:
        ValueError: it is none, or is too short to be safe.
    """
    try:
        found = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("a secret is whsec_ and base64") from None
    if not secret.startswith(SECRET_PREFIX) or not KEY_BYTES_MIN <= len(found) <= KEY_BYTES_MAX:
        raise ValueError(f"a secret is whsec_ and {KEY_BYTES_MIN} to {KEY_BYTES_MAX} bytes")
    return found
