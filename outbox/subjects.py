"""What events are about, as people name it: an id alone says of which kind it is."""

from pydantic import TypeAdapter, ValidationError

from bettercompute import errors, ids
from bettercompute.wire.events import SubjectName
from outbox import catalog

#: Every kind of thing that events are about.
KNOWN = frozenset(kind.subject for kind in catalog.TYPES)
#: The kinds whose ids say so by their prefix. Devices and quotas have names of their own.
KINDS = {
    "rsv": "reservation",
    "ser": "series",
    "cnf": "confirmation",
    "node": "node",
    "pool": "pool",
    "whk": "webhook",
}
_PATTERN = TypeAdapter(SubjectName)
_ALLOWED = (
    f"is an id ({', '.join(f'{prefix}_…' for prefix in KINDS)}), or has its kind before it: "
    "reservation/rsv_…, device/GPU-…, quota/gpuMilli; or is the name of a node or a pool that you "
    "may see. For all of a kind choose the type, such as All of node"
)


def completed(text: str) -> str:
    """``rsv_…`` as ``reservation/rsv_…``; anything else as it is."""
    kind = KINDS.get(ids.prefix(text), "")
    return f"{kind}/{text}" if kind and "/" not in text else text


def meant(text: str) -> str:
    """The one subject that somebody means; nothing for nothing.

    Raises:
        errors.InvalidInput: events are about nothing of that name.
    """
    subject = completed(text)
    if not subject:
        return ""
    try:
        _PATTERN.validate_python(subject)
    except ValidationError as error:
        raise errors.InvalidInput.at("subject", _ALLOWED) from error
    if subject.partition("/")[0] not in KNOWN:
        raise errors.InvalidInput.at("subject", _ALLOWED)
    return subject
