"""To whom a request says it goes: once, since HTTP/1.1 (RFC 9112, 3.2).

gunicorn also takes one that does not say. Which name is ours is Django's to judge (ALLOWED_HOSTS).
"""

from collections.abc import MutableMapping
from typing import Any

from bettercompute.errors import InvalidInput

HEADER = "Host"


def check(scope: MutableMapping[str, Any]) -> None:
    """Refuse a request that names no host, or several.

    Raises:
        InvalidInput: it does.
    """
    named = [value for name, value in scope["headers"] if name == HEADER.lower().encode()]
    if len(named) > 1:
        raise InvalidInput.at(HEADER, "is given more than once")
    if not named and scope.get("http_version", "1.1") == "1.1":
        raise InvalidInput.at(HEADER, "is missing: a request of HTTP/1.1 says to which host it is")
