"""Capacity offers on the wire: ways to have what is asked for, each good for a minute (R21).

Not the offers of a pool to another tenant.
"""

from enum import StrEnum
from typing import Annotated, Any

from bettercompute.wire.base import AnswerModel, EpochMs, Id, WireModel
from bettercompute.wire.branches import (
    NUMBER,
    OBJECT,
    TEXT,
    DurationText,
    InstantText,
    ShortText,
    by_kind,
)
from bettercompute.wire.capacity import PreviewNode
from bettercompute.wire.reasons import Reason
from bettercompute.wire.reservations import (
    Devices,
    Quote,
    RequestTerms,
    Window,
)


class OfferKind(StrEnum):
    """What a capacity offer is best at."""

    SOONEST = "soonest"
    CHEAPEST = "cheapest"
    LONGEST = "longest"


class StartRange(WireModel):
    """Any start between these; without `earliest` from now on."""

    earliest: InstantText | None = None
    latest: InstantText


class DurationRange(WireModel):
    """At least the one, at most the other."""

    min: DurationText
    max: DurationText


DurationOrRange = Annotated[
    Annotated[int, NUMBER] | Annotated[ShortText, TEXT] | Annotated[DurationRange, OBJECT],
    by_kind("should be a duration such as 8h, or an object with min and max"),
]
InstantOrRange = Annotated[
    Annotated[EpochMs, NUMBER] | Annotated[ShortText, TEXT] | Annotated[StartRange, OBJECT],
    by_kind("should be an instant, or an object with earliest and latest"),
]


class CapacityOffersRequest(RequestTerms):
    """A preview's body, in which start and duration may be ranges."""

    pool_id: Id
    devices: Devices
    duration: DurationOrRange
    start: InstantOrRange | None = None


class CapacityOffer(AnswerModel):
    """One way to have it. It holds nothing: a create with its id takes it, or finds it gone."""

    id: str
    kinds: list[OfferKind]
    why: str
    during: Window
    request: dict[str, Any]
    nodes: list[PreviewNode]
    quote: Quote
    expires_at: int


class CapacityOffers(AnswerModel):
    """Up to six, the best first; where there is none, why not, as a preview says it."""

    offers: list[CapacityOffer]
    reasons: list[Reason] = []
    earliest: int | None = None
