"""A request names the host that it is for, once, since HTTP/1.1 (RFC 9112, 3.2).

gunicorn also takes one that names none. Which name is ours is Django's to judge (ALLOWED_HOSTS).
"""

from bettercompute.errors import InvalidInput
from bettercompute.web.bridge import Scope

HEADER = "Host"


def check(scope: Scope) -> None:
    """Refuse a request that names no host, or several.

    Raises:
        InvalidInput: it does.
    """
    named = [value for name, value in scope["headers"] if name == HEADER.lower().encode()]
    if len(named) > 1:
        raise InvalidInput.at(HEADER, "is given more than once")
    if not named and scope.get("http_version", "1.1") == "1.1":
        raise InvalidInput.at(HEADER, "is missing: a request by HTTP/1.1 names its host")
