"""Instants that people write, as epoch milliseconds (R4): ISO 8601, always with an offset."""

import re
from datetime import UTC, datetime, timedelta

from bettercompute.wire.base import MILLISECONDS_MAX

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_ISO = re.compile(
    r"(?P<seconds>[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}(?P<s>:[0-9]{2})?)"
    r"(?:[.,](?P<fraction>[0-9]{1,9}))?(?P<offset>[Zz]|[+-][0-9]{2}:?[0-9]{2})?"
)


class InvalidInstant(ValueError):
    """The text is no instant."""


def parse(value: int | str) -> int:
    """Epoch milliseconds, rounded down to the whole one; a number is that already.

    Raises:
        InvalidInstant: it is no ISO 8601 date and time, is a leap second, has no offset, or is
            before 1970 or behind the year 9999.
    """
    if isinstance(value, int):
        return value
    match = _ISO.fullmatch(value.strip())
    if match is None or (match["fraction"] and not match["s"]):
        raise InvalidInstant(
            "must be epoch milliseconds or ISO 8601 with an offset, such as 2026-03-02T09:00:00Z"
        )
    if match["offset"] is None:
        raise InvalidInstant("has no offset: add Z or one such as +01:00")
    if match["s"] == ":60":
        raise InvalidInstant("is a leap second, which has no place in epoch time")
    try:
        whole = datetime.fromisoformat(match["seconds"].upper() + match["offset"].upper())
    except ValueError as error:
        raise InvalidInstant(f"is not a date and time that exists: {error}") from error
    fraction = int((match["fraction"] or "0").ljust(3, "0")[:3])
    milliseconds = (whole - EPOCH) // timedelta(milliseconds=1) + fraction
    if not 0 <= milliseconds <= MILLISECONDS_MAX:  # an offset may take it there
        raise InvalidInstant("must be from 1970 to 9999, in UTC")
    return milliseconds
