"""The audit on the wire: who did what, and what was refused."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import Field

from bettercompute.wire.base import AnswerModel, EpochMs, Id, PageQuery

Outcome = Literal["allowed", "denied", "failed"]
Scope = Literal["tenant", "platform"]
OUTCOMES: tuple[Outcome, ...] = ("allowed", "denied", "failed")


class AuditQuery(PageQuery):
    """Which entries, and which page of them; the newest first."""

    scope: Scope = Field(
        "tenant", description="`platform`: of all tenants and of none, for operators"
    )
    account_id: Id | None = Field(None, description="who did it")
    object_id: Id | None = Field(None, description="what it was done to")
    action: Id | None = Field(None, description="exactly, such as `compute:reservations:create`")
    outcome: Outcome | None = None
    start: EpochMs | None = Field(None, alias="from")
    end: EpochMs | None = Field(None, alias="to")


class AuditActor(AnswerModel):
    """Who acted; names as they were then. Of whom nobody knew, all is empty."""

    account_id: str
    username: str
    role: str
    operator: bool
    via: Literal["token", "session", "command", "none"]
    token_id: str
    token_name: str


class AuditOrigin(AnswerModel):
    """From where. Of operators a tenant is not told it."""

    address: str
    user_agent: str
    request_id: str


class AuditObject(AnswerModel):
    """What it was done to."""

    kind: str
    id: str


class AuditEntry(AnswerModel):
    """One act's end."""

    id: str
    at: int
    tenant_id: str | None = Field(description="whose matter it is; null: the platform's")
    actor: AuditActor
    origin: AuditOrigin
    action: str
    object: AuditObject
    outcome: Outcome
    code: str | None = Field(description="of the error, where it was not done")
    policies: list[str] = Field(description="that decided")
    detail: dict[str, Any] = Field(description="what more is known; short, and without secrets")


class AuditList(AnswerModel):
    """A page of the audit."""

    items: list[AuditEntry]
    next_cursor: str | None


def actor(username: str, detail: Mapping[str, Any]) -> str:
    """``alice``, or ``trainer, for alice`` where her agent acted; nothing where nobody is known."""
    agent = detail.get("agent")
    return f"{agent}, for {username}" if agent else username


#: What a file for a spreadsheet has of an entry.
FILE_COLUMNS = (
    "Time",
    "Who",
    "Account",
    "Via",
    "Token",
    "Action",
    "Object",
    "Outcome",
    "Code",
    "Policies",
    "Address",
    "Request",
    "Detail",
    "Entry",
)


def file_row(entry: AuditEntry) -> tuple[str, ...]:
    """Its cells, in the order of the columns."""
    who, where = entry.actor, entry.origin
    at = datetime.fromtimestamp(entry.at / 1_000, UTC)
    return (
        at.isoformat(timespec="milliseconds"),
        who.username,
        who.account_id,
        who.via,
        who.token_name,
        entry.action,
        f"{entry.object.kind}/{entry.object.id}".strip("/"),
        entry.outcome,
        entry.code or "",
        " ".join(entry.policies),
        where.address,
        where.request_id,
        json.dumps(entry.detail, ensure_ascii=False, sort_keys=True),
        entry.id,
    )
