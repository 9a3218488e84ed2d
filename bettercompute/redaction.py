"""Blanking what is a secret, or is named like one, before it is written where it stays."""

import re
from typing import Any

REDACTED = "[redacted]"
_SECRET_NAMES = re.compile(
    r"(?i)(authorization|cookie|password|passwd|secret|token|api[_-]?key|signature|session)"
)
_SECRET_VALUES = re.compile(
    r"bc[tf]_[0-9a-z]{10,}_[a-z2-7]{6,}"  # API tokens, addresses of calendar feeds
    r"|bce_[A-Za-z0-9_-]{20,}"  # enrolments of nodes
    r"|node_[0-9a-z]{26}\.\d+\.[A-Za-z0-9_-]{20,}"  # sessions of node agents
    r"|whsec_[A-Za-z0-9+/=_-]{16,}"  # secrets of webhooks
    r"|(?i:bearer)\s+[A-Za-z0-9._~+/=-]{8,}"
    r"|(?<=://)[^\s/:@]+:[^\s/@]+(?=@)"  # user:password of a URL
)


def names_a_secret(name: str, value: object) -> bool:
    """Whether what has this name is to be blanked whole; ids and names of secrets are none."""
    is_identifier = name.endswith(("_id", "_name"))
    return not is_identifier and isinstance(value, str) and bool(_SECRET_NAMES.search(name))


def scrub(value: Any) -> Any:
    """The same without secrets, however deep they lie."""
    if isinstance(value, str):
        return _SECRET_VALUES.sub(REDACTED, value)
    if isinstance(value, dict):
        return {
            key: REDACTED if names_a_secret(str(key), item) else scrub(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [scrub(item) for item in value]
    return value
