"""Durations: what people write, as milliseconds (R4).

Accepted: milliseconds as a whole number, ``28800000ms``, ``90s``, ``30m``, ``8h``, ``3d``, ``2w``,
sums of these such as ``1d12h``, and ISO 8601 (``PT8H``, ``P3D``, ``P1DT12H``, ``P2W``). Years and
months are refused: they have no fixed length.
"""

import re

MS_PER_UNIT = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
ALLOWED = "milliseconds, 28800000ms, 90s, 30m, 8h, 3d, 2w, 1d12h or ISO 8601 such as PT8H"

# Digits are bounded: a longer number would only cost time before it is refused as too long.
_PART = re.compile(r"([0-9]{1,15})(ms|s|m|h|d|w)")
_SHORT = re.compile(r"(?:[0-9]{1,15}(?:ms|[smhdw]))+\Z")
_ISO = re.compile(
    r"P(?:(?P<w>[0-9]{1,15})W|(?:(?P<d>[0-9]{1,15})D)?"
    r"(?:T(?:(?P<h>[0-9]{1,15})H)?(?:(?P<m>[0-9]{1,15})M)?"
    r"(?:(?P<s>[0-9]{1,15})(?:[.,](?P<f>[0-9]{1,3}))?S)?)?)\Z"
)


class InvalidDuration(ValueError):
    """The text is no duration, or not a positive one."""


def parse(value: int | str) -> int:
    """Milliseconds of a duration, always positive.

    Raises:
        InvalidDuration: it is not one of the accepted forms, or is zero or negative.
    """
    milliseconds = value if isinstance(value, int) else _parse_text(value.strip())
    if isinstance(value, bool) or milliseconds <= 0:
        raise InvalidDuration("a duration must be longer than zero")
    return milliseconds


def _parse_text(text: str) -> int:
    if re.fullmatch(r"[0-9]{1,15}", text):
        return int(text)
    if _SHORT.match(text):
        return sum(int(number) * MS_PER_UNIT[unit] for number, unit in _PART.findall(text))
    iso = _ISO.match(text)
    if iso is None or not any(iso.groups()):
        raise InvalidDuration(f"not a duration; allowed are {ALLOWED}")
    whole = sum(int(iso[unit] or 0) * MS_PER_UNIT[unit] for unit in "wdhms")
    return whole + int((iso["f"] or "0").ljust(3, "0"))


def normalise(milliseconds: int) -> str:
    """The stored form: ``28800000ms`` (R4)."""
    return f"{milliseconds}ms"


def human(milliseconds: int) -> str:
    """Short words for people: ``8h``, ``1d 12h``, ``250ms``."""
    if milliseconds < 1_000:
        return f"{milliseconds}ms"
    parts, rest = [], milliseconds
    for unit in ("d", "h", "m", "s"):
        number, rest = divmod(rest, MS_PER_UNIT[unit])
        if number:
            parts.append(f"{number}{unit}")
    return " ".join(parts)
