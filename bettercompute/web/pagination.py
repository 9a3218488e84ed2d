"""Cursors of lists: opaque, of one list only, and refused when they are not (A5)."""

import base64
import binascii
import json

from bettercompute.errors import InvalidInput

CURSOR_MAX = 512


def encode(list_name: str, *position: str | int) -> str:
    """The cursor behind a row: the values its list is ordered by."""
    text = json.dumps([list_name, *position], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode(list_name: str, cursor: str, *kinds: type[str] | type[int]) -> tuple[str | int, ...]:
    """The position a cursor stands for.

    Raises:
        InvalidInput: it is none, or of another list.
    """
    refused = InvalidInput.at("cursor", "not a cursor of this list")
    if len(cursor) > CURSOR_MAX:
        raise refused
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        document = json.loads(
            base64.b64decode(padded.encode("ascii"), altchars=b"-_", validate=True)
        )
    except (binascii.Error, UnicodeError, ValueError, RecursionError) as error:
        raise refused from error
    if not isinstance(document, list) or document[:1] != [list_name]:
        raise refused
    position = document[1:]
    if [type(value) for value in position] != list(kinds):
        raise refused
    if any("\x00" in value for value in position if isinstance(value, str)):
        raise refused
    return tuple(position)
