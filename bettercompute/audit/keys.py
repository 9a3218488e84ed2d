"""The keys that entries and seals are made with: of the application's secrets, the newest first.

Whoever can write the tables but does not know a secret can make no entry that would verify. A
secret that is replaced goes to ``SECRET_KEY_FALLBACKS``, and what it sealed verifies while it is
there.
"""

import hashlib
import hmac
from functools import lru_cache

from django.conf import settings

_PURPOSE = b"bettercompute.audit.1"


def newest() -> tuple[str, bytes]:
    """The key in use, with its id."""
    key = _derived(settings.SECRET_KEY)
    return _id(key), key


def known() -> dict[str, bytes]:
    """Every key that something may have been sealed with, by its id."""
    secrets = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    return {_id(key): key for key in map(_derived, secrets)}


def mac(key: bytes, text: bytes) -> bytes:
    """HMAC-SHA-256."""
    return hmac.new(key, text, hashlib.sha256).digest()


@lru_cache(maxsize=16)
def _derived(secret: str) -> bytes:
    return hmac.new(secret.encode(), _PURPOSE, hashlib.sha256).digest()


def _id(key: bytes) -> str:
    return hashlib.sha256(key).hexdigest()[:12]
