"""Capacity on the wire: the preview (R20)."""

from bettercompute.wire.base import AnswerModel
from bettercompute.wire.pools import Quota
from bettercompute.wire.reasons import Filter as Filter  # noqa: PLC0414  # its own vocabulary, too
from bettercompute.wire.reasons import Reason as Reason  # noqa: PLC0414
from bettercompute.wire.reservations import Quote


class PreviewNode(AnswerModel):
    """A node a create would take, and what of it."""

    node_id: str
    name: str
    device_ids: list[str]


class QuotaAfter(Quota):
    """One quota as it would be afterwards."""


class Preemption(AnswerModel):
    """It fits by so many spot reservations giving way, and starts when they have (R19)."""

    reservations: int
    start: int


class PreviewOccurrence(AnswerModel):
    """One occurrence of a recurrence: whether it would be booked, and why not."""

    start: int
    end: int
    fits: bool
    reasons: list[Reason]


class Preview(AnswerModel):
    """Answer of `POST /capacity/preview`: always 200 for a valid body.

    With a recurrence it fits where every occurrence does; else the reasons are those of the first
    that does not, and `nodes` are the first occurrence's.
    """

    fits: bool
    nodes: list[PreviewNode]
    quote: Quote
    quota_after: list[QuotaAfter]
    reasons: list[Reason]
    earliest: int | None = None
    preempts: Preemption | None = None
    #: an agent asks, and its person has to confirm the create first (R36)
    needs_confirmation: bool = False
    #: with a recurrence: each occurrence that is near enough to be booked, up to 60
    occurrences: list[PreviewOccurrence] | None = None
