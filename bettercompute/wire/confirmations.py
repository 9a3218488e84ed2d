"""Confirmations on the wire: what an agent asks its person for (R36)."""

from typing import Annotated, Any, Literal

from pydantic import StringConstraints

from bettercompute.states import ConfirmationState
from bettercompute.wire.base import AnswerModel, Id, PageQuery, WireModel

REASON_MAX = 500
Reason = Annotated[str, StringConstraints(max_length=REASON_MAX, strip_whitespace=True)]


class ConfirmationQuery(PageQuery):
    """Which confirmations: one's own, or with `all` the tenant's, which only admins see whole."""

    scope: Literal["mine", "all"] = "mine"
    state: list[ConfirmationState] = []


class Denial(WireModel):
    """Why not; the agent is told."""

    tenant_id: Id
    reason: Reason = ""


class Confirmation(AnswerModel):
    """Exactly one act that an agent asks for, once."""

    id: str
    tenant_id: str
    #: the person it acts for, who alone decides
    account_id: str
    username: str
    agent: str
    token_id: str
    action: str
    #: the reservation or series that it is about
    resource_id: str
    #: in a line of plain words
    summary: str
    #: what exactly; of a create its whole request
    asked: dict[str, Any]
    state: ConfirmationState
    reason: str | None
    asked_at: int
    #: when it can be neither answered nor used any more
    expires_at: int
    decided_at: int | None
    decided_by: str | None
    #: whether it was approved before it was denied
    withdrawn: bool = False
    version: int


class ConfirmationList(AnswerModel):
    """One page, newest first."""

    items: list[Confirmation]
    next_cursor: str | None
