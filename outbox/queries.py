"""Events as people look them up: no horizon, since nothing is resumed from here."""

from outbox import events, reader
from outbox.reader import EventRow


def for_subject(subject: str, *, limit: int = 100) -> list[EventRow]:
    """The newest events about one thing, newest first."""
    return [
        reader.event(row) for row in events.EVENTS.all("for_subject", subject=subject, limit=limit)
    ]
