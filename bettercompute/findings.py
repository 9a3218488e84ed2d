"""What a self-check found (C39): each finding has a name and says what to do about it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong on a live system."""

    check: str  # area.check, such as outbox.horizon
    message: str  # what is wrong, with values
    do: str  # what an operator does about it
