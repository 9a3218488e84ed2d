"""Why a request does not fit, on the wire: the same words for a preview and for what waits."""

from collections.abc import Sequence
from enum import StrEnum

from bettercompute.wire.base import AnswerModel

#: The reason of a reservation's condition where waiting does not help: see ``never``.
NEVER_FITS = "NeverFits"


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
    #: the most there is even with nothing booked, where that is too little: waiting does not help
    most: str | None = None


def never(reasons: Sequence[Reason]) -> bool:
    """Whether the pool as it is could not serve it, whatever ends: no node could, or too few."""
    lacking = [reason for reason in reasons if reason.most is not None]
    in_all = any(of_pool(reason.filter, reason.nodes) for reason in lacking)
    return bool(reasons) and (in_all or len(lacking) == len(reasons))


def of_pool(failed: Filter, nodes: int) -> bool:
    """Whether what is too little is so in the whole pool, not on each of these nodes."""
    return failed is Filter.GANG or not nodes
