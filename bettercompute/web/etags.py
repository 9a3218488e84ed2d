"""Versions as strong ETags: ``If-Match`` before a write, ``If-None-Match`` on a get (C2)."""

import hashlib
import re

from django.http import HttpRequest

from bettercompute.errors import InvalidInput, PreconditionFailed

_DIGEST_BYTES = 12
_VERSION = re.compile(rf"([0-9]{{1,18}})(?:\.[0-9a-f]{{{2 * _DIGEST_BYTES}}})?")
_TAG = re.compile(r'\s*(W/)?"([\x21\x23-\x7e]*)"\s*(?:,|\Z)')


def of_version(version: int) -> str:
    """The ETag of a version."""
    return f'"{version}"'


def of_version_and_content(version: int, content: bytes) -> str:
    """The ETag of what also shows things that change without its version: liveness, what is free.

    A write is guarded by the version in it alone; a get is new when any of it is.
    """
    return f'"{version}.{_digest(content)}"'


def of_content(content: bytes) -> str:
    """The ETag of what has no version of its own."""
    return f'"{_digest(content)}"'


def if_match(request: HttpRequest) -> frozenset[int] | None:
    """The versions a write may meet; None where any will do (no header, or ``*``).

    Raises:
        InvalidInput: the header is no list of ETags.
        PreconditionFailed: it has no strong ETag of a version, so nothing can match it.
    """
    header = request.META.get("HTTP_IF_MATCH")
    if header is None or header.strip() == "*":
        return None
    # A weak tag never matches here: only a strong one says "exactly this version" (RFC 9110).
    tags = [tag for weak, tag in _tags(header, "If-Match") if not weak]
    found = [_VERSION.fullmatch(tag) for tag in tags]
    versions = frozenset(int(match[1]) for match in found if match is not None)
    if not versions:
        raise PreconditionFailed('If-Match has no strong ETag of ours, such as "3".')
    return versions


def require(version: int, allowed: frozenset[int] | None) -> None:
    """Refuse a version that the request did not mean.

    Raises:
        PreconditionFailed: with the current version in its details.
    """
    if allowed is not None and version not in allowed:
        raise PreconditionFailed(version=version)


def is_not_modified(request: HttpRequest, etag: str) -> bool:
    """Whether the client has this already (``If-None-Match`` compares weakly)."""
    header = request.META.get("HTTP_IF_NONE_MATCH")
    if header is None:
        return False
    if header.strip() == "*":
        return True
    return any(f'"{tag}"' == etag for _, tag in _tags(header, "If-None-Match"))


def _tags(header: str, name: str) -> list[tuple[bool, str]]:
    found: list[tuple[bool, str]] = []
    position = 0
    while position < len(header):
        tag = _TAG.match(header, position)
        if tag is None:
            raise InvalidInput.at(name, 'must be a list of ETags such as "3", or *')
        found.append((bool(tag[1]), tag[2]))
        position = tag.end()
    return found


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()
