"""Planned maintenance on the wire (N18)."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from bettercompute.states import ReservationState
from bettercompute.wire.base import AnswerModel, Id, WireModel
from bettercompute.wire.branches import DurationText, InstantText
from bettercompute.wire.reservations import Window

State = Literal["planned", "under-way", "over", "cancelled"]


class MaintenanceRequest(WireModel):
    """When, and what for; either until an instant or for a duration. With `preview` whom it meets.

    The reason is read by everybody who may book there.
    """

    tenant_id: Id | None = None
    start: InstantText
    end: InstantText | None = None
    duration: DurationText | None = None
    reason: Annotated[str, StringConstraints(min_length=1, max_length=300)]
    preview: bool = False


class MaintenanceVerb(WireModel):
    """Body of cancel; with `preview` it only says whom it meets."""

    tenant_id: Id | None = None
    preview: bool = False


class Maintenance(AnswerModel):
    """Work that is planned: of one node, or of all of a pool where it names none."""

    id: str
    pool_id: str
    node_id: str | None
    node: str | None
    start: int
    end: int
    reason: str
    state: State
    #: told to whoever may cancel it
    announced_by: str | None = None
    announced_at: int
    version: int


class Affected(AnswerModel):
    """A reservation whose time it meets: it stays, and its holder is told."""

    reservation_id: str
    tenant_id: str
    tenant: str
    owner_identity_id: str
    owner: str
    state: ReservationState
    during: Window
    nodes: list[str]
    devices: int


class MaintenanceOperation(AnswerModel):
    """Answer of announcing and cancelling; a preview of announcing has no maintenance yet."""

    maintenance: Maintenance | None
    applied: bool
    affected: list[Affected]
    #: also those beyond the first 500 that are listed
    affected_total: int


class MaintenanceDetails(Maintenance):
    """One of them, and whom it meets."""

    affected: list[Affected] = Field(default=[])
    affected_total: int = 0


class MaintenanceList(AnswerModel):
    """What is planned or under way, by start."""

    items: list[Maintenance]
    next_cursor: str | None = None
