"""Celery tasks: they carry no state, they only say "look" (C28)."""

from bettercompute.celery import app
from bettercompute.coordination import worker


@app.task  # type: ignore[untyped-decorator]  # Celery has no types
def look() -> int:
    """Something may be due."""
    return worker.current().look()


@app.task  # type: ignore[untyped-decorator]  # likewise
def tell() -> int:
    """There are events to tell others of."""
    return worker.current().tell()


@app.task  # type: ignore[untyped-decorator]  # likewise
def tick() -> int:
    """A second has passed."""
    return worker.current().tick()
