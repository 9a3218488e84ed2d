"""Whether this server process has been asked to stop.

gunicorn tells its worker object and nobody else, and then waits for open requests; whatever holds
one open looks here and lets go.
"""

from typing import Protocol


class Worker(Protocol):
    """The part of gunicorn's worker that matters."""

    alive: bool


_watched: list[Worker] = []


def watch(worker: Worker) -> None:
    """Called by gunicorn in each worker process (``gunicorn_conf.post_worker_init``)."""
    _watched[:] = [worker]


def is_stopping() -> bool:
    """Whether to let go of what is held open."""
    return any(not worker.alive for worker in _watched)
