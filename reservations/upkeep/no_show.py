"""No-shows: what was handed over and is not used ends, where its pool says so (off by default).

Only an active reservation can be one: until its nodes have handed the devices over nobody could use
them, and what does not bind is placed again anyway (R26). A node says when a workload first uses
the devices of an allocation; one of a gang is enough. Where any node cannot say so, or is silent,
nothing is judged: not to be told is not to be unused. Only time counts in which we listened (C38).

Its holder is warned first, by the condition ``NoShow`` and an event, and has the whole warning
from then on, however late that was.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from bettercompute import clock
from bettercompute.pages import moments as instants
from bettercompute.states import AllocationState, ReservationState
from nodes import assignments, hearing
from nodes.assignments import Use
from pools import catalogue
from pools.catalogue import NoShow
from reservations import conditions, ending, lifecycle
from reservations.conditions import ConditionType
from reservations.lifecycle import Effects
from reservations.models import Reservation

REASON = "no-show"


@dataclass(frozen=True, slots=True)
class Watch:
    """What a pool's rule makes of one reservation."""

    rule: NoShow
    handed_over_at: datetime
    warned_at: datetime | None
    node_ids: tuple[str, ...]
    unused: bool  #: all of its nodes would say so, and none has

    @property
    def allowed(self) -> timedelta:
        """How long it may be unused from its hand-over, or from the warning, whichever is next."""
        minutes = self.rule.after_minutes if self.warned_at is None else self.rule.warn_minutes
        return timedelta(minutes=minutes)

    @property
    def deadline(self) -> datetime | None:
        """When it is warned, or ends; None where it is used."""
        if not self.unused:
            return None
        return (self.warned_at or self.handed_over_at) + self.allowed

    def passed(self, now: datetime) -> bool:
        """Whether the next deadline passed while its nodes could have told of a use."""
        if self.deadline is None or self.deadline > now:
            return False
        heard = hearing.of(self.node_ids)
        return heard.passed(self.deadline, allowed=self.allowed, now=now)


def watch(reservation: Reservation) -> Watch | None:
    """The watch on an active reservation whose row is locked; None where its pool has no rule."""
    if reservation.state != ReservationState.ACTIVE:
        return None
    rule = catalogue.of_tenant(reservation.tenant_id, reservation.pool_id).policy.no_show
    if rule is None:
        return None
    assert reservation.bound_at is not None, "it is active"
    warned = conditions.find(reservation.conditions, ConditionType.NO_SHOW)
    use = assignments.use_of(reservation.id)
    return Watch(
        rule=rule,
        handed_over_at=reservation.bound_at,
        warned_at=None if warned is None else clock.from_ms(warned["since"]),
        node_ids=use.node_ids,
        unused=_is_unused(reservation, use),
    )


def _is_unused(reservation: Reservation, use: Use) -> bool:
    if use.used or not use.told:
        return False
    live = ending.live_allocations(reservation)  # a node that let go of its part hands out nothing
    return all(allocation.state == AllocationState.BOUND for allocation in live)


def is_over(reservation: Reservation, now: datetime) -> bool:
    """Whether it was warned, and nothing came of it."""
    if conditions.find(reservation.conditions, ConditionType.NO_SHOW) is None:
        return False
    seen = watch(reservation)
    return seen is not None and seen.passed(now)


def warn(reservation: Reservation, now: datetime, effects: Effects) -> datetime | None:
    """Warn a reservation that is not used, or take that back; answers when to judge it next."""
    seen = watch(reservation)
    kind = ConditionType.NO_SHOW
    if seen is None or not seen.unused:
        if conditions.find(reservation.conditions, kind) is not None:
            kept = conditions.clear(reservation.conditions, kind)
            lifecycle.amend(reservation, {"conditions": kept})
        return None
    if seen.warned_at is not None or not seen.passed(now):
        return seen.deadline
    end = now + timedelta(minutes=seen.rule.warn_minutes)
    unused = conditions.put(
        reservation.conditions,
        kind,
        reason="Unused",
        message=f"Nothing has used its devices. It ends {instants.iso(end)} unless that changes.",
        now_ms=clock.to_ms(now),
    )
    lifecycle.amend(reservation, {"conditions": unused})
    effects.event(reservation, "no-show-warning", end=clock.to_ms(end))
    return end
