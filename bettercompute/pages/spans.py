"""How long, as people write and read it: ``3 days``, ``1h 30min``, ``1.5 hours``."""

import re

from bettercompute import durations

EXAMPLES = "8h, 90 minutes, 3 days, 1d 12h or 2 weeks"

_UNITS = {
    "w": "w", "wk": "w", "wks": "w", "week": "w", "weeks": "w",
    "d": "d", "day": "d", "days": "d",
    "h": "h", "hr": "h", "hrs": "h", "hour": "h", "hours": "h",
    "m": "m", "min": "m", "mins": "m", "minute": "m", "minutes": "m",
    "s": "s", "sec": "s", "secs": "s", "second": "s", "seconds": "s",
}  # fmt: skip
_PART = re.compile(r"(\d{1,9})(?:[.](\d{1,3}))?\s*([a-z]+)(?:\s*(?:,|and)?\s*)")
_ISO = re.compile(r"p[\dtwdhms.]+\Z", re.IGNORECASE)


class NotUnderstood(ValueError):
    """The text is no duration; the message says what would be."""


def parse(text: str) -> int:
    """Milliseconds of a duration in words, symbols or ISO 8601.

    Raises:
        NotUnderstood: it is none of these, or not longer than zero.
    """
    words = " ".join(text.lower().split())
    if _ISO.match(words):
        return _positive(words.upper())
    total = position = 0
    while position < len(words):
        part = _PART.match(words, position)
        if part is None or part[3] not in _UNITS:
            raise NotUnderstood(_advice(words))
        unit_ms = durations.MS_PER_UNIT[_UNITS[part[3]]]
        total += int(part[1]) * unit_ms + round(
            int((part[2] or "0").ljust(3, "0")) * unit_ms / 1000
        )
        position = part.end()
    return _positive(total)


def _positive(value: int | str) -> int:
    try:
        return durations.parse(value)
    except durations.InvalidDuration as error:
        raise NotUnderstood(f"Say how long, longer than zero: {EXAMPLES}.") from error


def _advice(words: str) -> str:
    if words.isdigit():
        return f"Add a unit to {words}: {words}h, {words}d or {words} minutes?"
    return f"Not a duration we understand. Try {EXAMPLES}."


def text(milliseconds: int, *, parts_max: int = 2) -> str:
    """The largest parts of a duration: ``3 d``, ``1 d 12 h``, ``45 min``, ``20 s``."""
    if milliseconds < 1_000:
        return "0 s"
    words, rest = [], milliseconds
    for unit, label in (("d", "d"), ("h", "h"), ("m", "min"), ("s", "s")):
        number, rest = divmod(rest, durations.MS_PER_UNIT[unit])
        if number:
            words.append(f"{number}\u00a0{label}")
        elif words:
            break  # "3 d" rather than "3 d 4 min": the second part is the next unit or none
    return " ".join(words[:parts_max])
