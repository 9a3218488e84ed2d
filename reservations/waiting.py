"""``wait {timeoutMs}``: holding an answer until placing is no longer under way (R14).

The view answers at once, with a marker; the ASGI side sleeps and polls here, so a waiting client
costs no thread and no database connection. Each poll is one read-only look.
"""

from bettercompute.web import longpoll
from bettercompute.wire import reservations as wire
from reservations import queries


def capped(timeout_ms: int) -> int:
    """How long a client may really wait; more is capped, not refused."""
    return min(timeout_ms, longpoll.WAIT_MS_MAX)


def poll(reservation_id: str) -> wire.Reservation | None:
    """The reservation as answered, once its operation no longer runs; None while it does.

    Raises:
        Reservation.DoesNotExist: there is no such row: a mistake of ours.
    """
    shown = latest(reservation_id)
    return None if shown.operation.state == "running" else shown


def latest(reservation_id: str) -> wire.Reservation:
    """The reservation as it is now: the answer when the time is up."""
    return queries.answer(reservation_id)
