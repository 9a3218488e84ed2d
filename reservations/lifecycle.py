"""Moving a reservation: the guarded state change with its event and its wake-ups.

A use case opens one transaction, makes an ``Effects``, moves rows, and flushes the effects last:
the work queue and the outbox stand at the end of the lock order (C19).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from bettercompute import states, transitions
from bettercompute.coordination import workqueue
from bettercompute.states import AllocationState, ReservationState
from bettercompute.telemetry import metrics
from outbox import events
from reservations.models import Allocation, Reservation

KIND = "reservation"
POOL_KIND = "pool"


@dataclass(slots=True)
class Effects:
    """Events and wake-ups that one transaction leaves behind.

    A reconciler is ``own_key`` to itself: it answers when to look again, and a wake-up of its own
    row during its own run would only make it run once more.
    """

    own_key: str | None = None
    _events: list[events.NewEvent] = field(default_factory=list)
    _wakes: dict[tuple[str, str], datetime | None] = field(default_factory=dict)

    def event(self, reservation: Reservation, name: str, **data: Any) -> None:
        """Tell that something happened to this reservation (R25)."""
        self._events.append(
            events.NewEvent(
                type=f"reservation.{name}",
                tenant_id=reservation.tenant_id,
                subject=f"reservation/{reservation.id}",
                data={"state": reservation.state, "poolId": reservation.pool_id, **data},
            )
        )

    def tell(self, event: events.NewEvent) -> None:
        """Tell that something happened to what is no reservation."""
        self._events.append(event)

    def wake(self, kind: str, key: str, at: datetime | None = None) -> None:
        """Have somebody look at it, now or at an instant; of two instants the earlier counts."""
        if kind == KIND and key == self.own_key:
            return
        known = self._wakes.get((kind, key), at)
        self._wakes[kind, key] = None if known is None or at is None else min(known, at)

    def flush(self) -> None:
        """Write both, in the lock order: the work queue sorted, then the outbox."""
        if self._wakes:
            workqueue.enqueue_many([(kind, key, at) for (kind, key), at in self._wakes.items()])
        if self._events:
            events.publish_many(self._events)


def move(
    reservation: Reservation, after: ReservationState, values: Mapping[str, Any] | None = None
) -> None:
    """Move the locked reservation and set ``values`` with it, in the row and in the object.

    Raises:
        errors.InvalidState: the state table does not allow it.
        errors.Conflict: somebody else changed the row.
    """
    values = dict(values or {})
    if reservation.state == ReservationState.PENDING:
        values["waiting"] = None  # it waits no longer
    reservation.version = transitions.move(
        states.RESERVATION,
        row_id=reservation.id,
        version=reservation.version,
        before=reservation.state,
        after=after,
        values=values,
    )
    metrics.count_on_commit(metrics.RESERVATION_MOVES, state=str(after))
    _remember(reservation, after, values)


def move_allocation(
    allocation: Allocation, after: AllocationState, values: Mapping[str, Any] | None = None
) -> None:
    """The same for an allocation; its reservation is locked first (C19)."""
    allocation.version = transitions.move(
        states.ALLOCATION,
        row_id=allocation.id,
        version=allocation.version,
        before=allocation.state,
        after=after,
        values=values,
    )
    _remember(allocation, after, values or {})


def amend(reservation: Reservation, values: Mapping[str, Any]) -> None:
    """Change what is no state of the locked reservation, with its version (C2)."""
    for name, value in values.items():
        setattr(reservation, name, value)
    reservation.version += 1
    reservation.save(update_fields=[*values, "version"])


def observe(reservation: Reservation, waiting: Mapping[str, Any]) -> None:
    """Keep what was seen of a locked, pending reservation: no change of it, so no version (C2)."""
    reservation.waiting = dict(waiting)
    reservation.save(update_fields=["waiting"])


def touch(reservation: Reservation) -> None:
    """A new version of the locked reservation whose allocations changed, and no column of its own.

    What is answered of a reservation has its allocations in it, and one version is one answer (C2).
    """
    amend(reservation, {})


def _remember(row: Reservation | Allocation, after: str, values: Mapping[str, Any]) -> None:
    row.state = after
    for name, value in values.items():
        setattr(row, name, value)
