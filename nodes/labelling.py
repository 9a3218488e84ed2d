"""What labels and taints may look like (N5). Pure."""

import re
from collections.abc import Mapping, Sequence

from bettercompute.errors import FieldError, InvalidInput

SYSTEM_PREFIX = "bc.dev/"
LABELS_MAX = 64
TAINTS_MAX = 32
EFFECTS = ("NoSchedule", "PreferNoSchedule")  # the second: only where nothing else does

_NAME = re.compile(
    r"(?:[a-z0-9](?:[a-z0-9.-]{0,250}[a-z0-9])?/)?[A-Za-z0-9](?:[\w.-]{0,61}\w)?\Z", re.ASCII
)
_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?)?\Z", re.ASCII)


def check_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels, where an operator may set them.

    Raises:
        InvalidInput: too many, malformed, or under ``bc.dev/``.
    """
    wrong = [
        FieldError(f"labels.{name}", why)
        for name, value in labels.items()
        if (why := _wrong_with(name, value))
    ]
    if len(labels) > LABELS_MAX:
        wrong.append(FieldError("labels", f"at most {LABELS_MAX}"))
    if wrong:
        raise InvalidInput(errors=wrong)
    return dict(sorted(labels.items()))


def check_taints(taints: Sequence[Mapping[str, str]]) -> tuple[dict[str, str], ...]:
    """The taints, with their effect, sorted by key.

    Raises:
        InvalidInput: too many or malformed.
    """
    wrong = [
        FieldError(f"taints[{position}]", why)
        for position, each in enumerate(taints)
        if (why := _wrong_with_taint(each))
    ]
    if len(taints) > TAINTS_MAX:
        wrong.append(FieldError("taints", f"at most {TAINTS_MAX}"))
    if wrong:
        raise InvalidInput(errors=wrong)
    complete = [{"effect": EFFECTS[0], **each} for each in taints]
    return tuple(sorted(complete, key=lambda each: (each["key"], each.get("value", ""))))


def _wrong_with(name: str, value: str) -> str:
    if not isinstance(name, str) or not _NAME.match(name):
        return "a name is letters, digits, '-', '_' and '.', with an optional domain and '/'"
    if name.startswith(SYSTEM_PREFIX):
        return f"labels under {SYSTEM_PREFIX} are written by the system only"
    if not isinstance(value, str) or not _VALUE.match(value):
        return "a value is at most 63 letters, digits, '-', '_' and '.'"
    return ""


def _wrong_with_taint(taint: Mapping[str, str]) -> str:
    unknown = set(taint) - {"key", "value", "effect"}
    if unknown:
        return f"unknown fields: {', '.join(sorted(unknown))}"
    if taint.get("effect", EFFECTS[0]) not in EFFECTS:
        return f"the effect is one of {', '.join(EFFECTS)}"
    return _wrong_with(taint.get("key", ""), taint.get("value", ""))
