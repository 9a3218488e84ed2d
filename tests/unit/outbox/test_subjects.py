"""What events are about, as people name it."""

import pytest

from bettercompute import ids
from bettercompute.errors import InvalidInput
from outbox import catalog, schemas, subjects

EXAMPLES = sorted({schemas.example(kind).subject for kind in catalog.TYPES})


@pytest.mark.parametrize("subject", EXAMPLES)
def test_whatever_events_are_about_is_meant_by_its_name_and_by_its_id(subject: str) -> None:
    assert subjects.meant(subject) == subject
    kind, _, key = subject.partition("/")
    if kind in subjects.KINDS.values():
        assert subjects.meant(key) == subject
    else:
        assert kind in {"device", "quota"}
        assert not ids.prefix(key)


def test_nothing_means_nothing() -> None:
    assert subjects.meant("") == ""


@pytest.mark.parametrize(
    "text", ["tok_a", "rack/1", "gpu-07", "rsv_", "rsv_a b", "reservation/", "reservation/*", "_"]
)
def test_anything_else_is_told_what_is_taken(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        subjects.meant(text)
    (error,) = refused.value.details["errors"]
    assert error["path"] == "subject"
    for prefix in subjects.KINDS:
        assert f"{prefix}_…" in error["message"]
    assert "device/GPU-…" in error["message"]
