"""Capacity on the wire: the preview (R20)."""

from enum import StrEnum

from bettercompute.wire.base import AnswerModel
from bettercompute.wire.reservations import Quote


class Filter(StrEnum):
    """Why a request does not fit: the fixed vocabulary of R20."""

    POLICY = "policy"
    QUOTA = "quota"
    BUDGET = "budget"
    CLASS = "class"
    MODEL = "model"
    TOPOLOGY = "topology"
    LABELS = "labels"
    CAPABILITY = "capability"
    TAINT = "taint"
    STATE = "state"
    BUSY = "busy"
    RESOURCES = "resources"
    GANG = "gang"


class PreviewNode(AnswerModel):
    """A node a create would take, and what of it."""

    node_id: str
    name: str
    device_ids: list[str]


class Reason(AnswerModel):
    """One reason, counted: so many nodes fail this filter, for instance these."""

    filter: Filter
    needs: str
    nodes: int = 0
    samples: list[str] = []
    until: int | None = None


class QuotaAfter(AnswerModel):
    """One quota as it would be afterwards."""

    resource: str
    used: int
    max: int


class Preview(AnswerModel):
    """Answer of `POST /capacity/preview`: always 200 for a valid body."""

    fits: bool
    nodes: list[PreviewNode]
    quote: Quote
    quota_after: list[QuotaAfter]
    reasons: list[Reason]
    earliest: int | None = None
