"""Series on the wire: a reservation that repeats, and what became of each occurrence."""

from typing import Any, Literal

from pydantic import Field

from bettercompute.states import ReservationState, SeriesState
from bettercompute.wire.base import (
    AnswerModel,
    Id,
    PageQuery,
    WireModel,
)
from bettercompute.wire.branches import InstantText
from bettercompute.wire.reservations import Condition


class Occurrence(AnswerModel):
    """One of them. While it is unbooked there is no reservation, and `reason` says why."""

    start: int
    end: int
    reservation_id: str | None
    state: ReservationState | None
    reason: str | None = None
    message: str | None = None


class Series(AnswerModel):
    """A reservation that repeats; each occurrence is a reservation of its own."""

    id: str
    tenant_id: str
    pool_id: str
    owner_identity_id: str
    #: the agent that asked for it for its owner, and what the owner was asked, once for all of it
    agent: str | None = None
    confirmation_id: str | None = None
    state: SeriesState
    rule: str
    time_zone: str
    #: what each occurrence asks for; `start` is the first one's
    request: dict[str, Any]
    conditions: list[Condition]
    #: the next occurrence that begins; null where there is none
    next_start: int | None
    #: no occurrence begins at this instant or later, where it was cut short
    cut_at: int | None = None
    #: occurrences ahead that could not be booked yet
    unbooked: int
    version: int
    created_at: int


class SeriesWithOccurrences(Series):
    """With what became of its occurrences: those ahead that are near enough, the latest before."""

    occurrences: list[Occurrence]


class SeriesList(AnswerModel):
    """One page, newest first."""

    items: list[Series]
    next_cursor: str | None


class SeriesQuery(PageQuery):
    """Which series, and which page of them."""

    scope: Literal["mine", "all"] = "mine"
    state: list[SeriesState] = []


class SeriesCancel(WireModel):
    """From which occurrence on; without `from` all that have not begun."""

    tenant_id: Id
    since: InstantText | None = Field(None, alias="from")
    release_running: bool = False


class SeriesSkip(WireModel):
    """Which occurrence is not to be."""

    tenant_id: Id
    occurrence: InstantText
