"""What is read of an answer: its head, and what may be shown of its body. Pure."""

import email.utils
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from bettercompute import redaction

GONE = 410
RETRY_AFTER_MAX = timedelta(days=365)  # more is no wish, and none that a timedelta need bear
# The first bytes of a character of UTF-8, at an end where the others are missing.
_HALF = re.compile(rb"(?:[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})\Z")
_SECONDS = re.compile(r"[0-9]{1,10}\Z")


@dataclass(frozen=True, slots=True)
class Head:
    """Status and headers, names in lower case; of a repeated header the first."""

    status: int
    headers: dict[str, str]

    @property
    def taken(self) -> bool:
        """Whether the receiver has taken the message."""
        return 200 <= self.status < 300


def head(status: int, raw: Iterable[tuple[bytes, bytes]]) -> Head:
    """The head of an answer."""
    headers: dict[str, str] = {}
    for name, value in raw:
        headers.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))
    return Head(status, headers)


def complaint(found: Head) -> str:
    """One sentence about a status that is not 2xx."""
    if 300 <= found.status < 400:
        return f"Answered {found.status}: redirects are not followed, save the address meant."
    if found.status == GONE:
        return f"Answered {found.status}: it wants no more of these."
    return f"Answered {found.status}."


def retry_after(found: Head, *, now: int) -> timedelta | None:
    """How long the receiver asks to be left alone (RFC 9110, 10.2.3); None where it does not."""
    text = found.headers.get("retry-after", "").strip()
    if _SECONDS.match(text):
        return min(timedelta(seconds=int(text)), RETRY_AFTER_MAX)
    try:
        until = email.utils.parsedate_to_datetime(text)
        wait = until.replace(tzinfo=until.tzinfo or UTC) - datetime.fromtimestamp(now, UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return min(max(wait, timedelta()), RETRY_AFTER_MAX)


def whole(body: bytes, *, cut: bool) -> bytes:
    """The first of a body, without the character that it has only half of where it was cut."""
    return _HALF.sub(b"", body) if cut else body


def without(signatures: Sequence[str], *, of: bytes) -> bytes:
    """A body without these: there are receivers that answer what they were sent.

    The slashes of base64 may be escaped, as some writers of JSON do.
    """
    for signature in signatures:
        for spelled in (signature, signature.replace("/", "\\/")):
            of = of.replace(spelled.encode(), redaction.REDACTED.encode())
    return of
