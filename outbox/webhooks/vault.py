"""The secrets of endpoints at rest: encrypted, by a key that can be replaced.

A sealed secret names the key that sealed it. ``WEBHOOK_KEYS`` are tried after their names: put a
new one before the others, let ``upkeep`` seal what there is anew, then drop the old. The key made
from ``SECRET_KEY`` always opens, so that a first key of its own can be added any day.
"""

import base64
import hashlib
from collections.abc import Mapping
from functools import cache

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

_PURPOSE = b"better compute: secrets of webhooks"
_NAME_CHARACTERS = 12


class Unreadable(Exception):
    """No key that we have opens this secret."""


def seal(secret: str) -> str:
    """The secret as it may be stored."""
    name, key = next(iter(_keys().items()))
    return f"{name}:{key.encrypt(secret.encode()).decode()}"


def unseal(sealed: str) -> str:
    """The secret again.

    Raises:
        Unreadable: the key that sealed it is none of ours, or it is damaged.
    """
    name, _, token = sealed.partition(":")
    key = _keys().get(name)
    if key is None:
        raise Unreadable(f"it was sealed by the key {name}, which is not configured any more")
    try:
        return key.decrypt(token.encode()).decode()
    except InvalidToken as error:
        raise Unreadable("it is damaged") from error


def current() -> str:
    """The name of the key that seals now; sealed secrets begin with it and a colon."""
    return next(iter(_keys()))


def _keys() -> Mapping[str, Fernet]:
    return _derived((*settings.WEBHOOK_KEYS, settings.SECRET_KEY))


@cache
def _derived(texts: tuple[str, ...]) -> Mapping[str, Fernet]:
    """Keys by their names, in order. A name tells nothing of its key."""
    found = {}
    for text in texts:
        material = HKDF(hashes.SHA256(), 32, salt=None, info=_PURPOSE).derive(text.encode())
        name = hashlib.sha256(b"name:" + material).hexdigest()[:_NAME_CHARACTERS]
        found[name] = Fernet(base64.urlsafe_b64encode(material))
    return found
