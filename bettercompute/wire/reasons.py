"""Why a request does not fit, on the wire: the same words for a preview and for what waits."""

from enum import StrEnum

from bettercompute.wire.base import AnswerModel


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


class Reason(AnswerModel):
    """One reason, counted: so many nodes fail this filter, for instance these."""

    filter: Filter
    needs: str
    nodes: int = 0
    samples: list[str] = []
    until: int | None = None
