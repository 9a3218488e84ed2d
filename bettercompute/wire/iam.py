"""Accounts, tokens and policies on the wire."""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from bettercompute.wire.base import AnswerModel, EpochMs, Id, TenantQuery, WireModel

Name = Annotated[str, StringConstraints(min_length=1, max_length=100, strip_whitespace=True)]
ShortText = Annotated[str, StringConstraints(max_length=200)]
Cursor = Annotated[str, StringConstraints(min_length=1, max_length=512)]
Limit = Annotated[int, Field(ge=1, le=200)]
PolicyScope = Literal["tenant", "platform"]
PolicyText = Annotated[str, StringConstraints(min_length=1, max_length=32_768)]


class TenantSeat(AnswerModel):
    """A tenant the account may act for, and its role there."""

    id: str
    slug: str
    name: str
    role: Literal["admin", "member"]


class TokenName(AnswerModel):
    """The token that made the request."""

    id: str
    name: str


class WhoAmI(AnswerModel):
    """Who the request is from."""

    account_id: str
    username: str
    operator: bool
    time_zone: str
    tenants: list[TenantSeat]
    token: TokenName | None


class TokenQuery(TenantQuery):
    """Which tokens to list."""

    limit: Limit = 50
    cursor: Cursor | None = None


class TokenCreate(WireModel):
    """A token for oneself at a tenant."""

    tenant_id: Id
    name: Name
    expires_at: EpochMs | None = Field(None, description="absent: never")


class Token(AnswerModel):
    """A token, without its secret."""

    id: str
    tenant_id: str
    account_id: str
    username: str
    name: str
    created_at: int
    expires_at: int | None
    last_used_at: int | None
    revoked_at: int | None


class TokenCreated(Token):
    """A new token; `token` is shown this once."""

    token: str


class TokenList(AnswerModel):
    """One page, newest first."""

    items: list[Token]
    next_cursor: str | None


class MemberQuery(TenantQuery):
    """Which members to list."""

    limit: Limit = 50
    cursor: Cursor | None = None


class Member(AnswerModel):
    """An account that can act for the tenant."""

    account_id: str
    username: str
    role: Literal["admin", "member"]


class MemberList(AnswerModel):
    """One page, by name."""

    items: list[Member]
    next_cursor: str | None


class TenantBody(WireModel):
    """For which tenant to act."""

    tenant_id: Id


class PolicyWrite(WireModel):
    """A policy document. `scope: platform` is the operators'."""

    tenant_id: Id
    scope: PolicyScope = "tenant"
    name: Name
    text: PolicyText
    enabled: bool = True


class Policy(AnswerModel):
    """A stored policy document."""

    id: str
    tenant_id: str | None
    scope: PolicyScope
    name: str
    text: str
    enabled: bool
    version: int
    created_at: int


class PolicyList(AnswerModel):
    """All policies that bind a tenant, the platform's first."""

    items: list[Policy]
    next_cursor: str | None = None


class AskedAttributes(WireModel):
    """What a decision sees (R38); everything absent is zero or empty."""

    gpus: Annotated[int, Field(ge=0, le=4_194_304)] = 0
    gpu_milli: Annotated[int, Field(ge=0, le=4_194_304_000)] = 0
    classes: Annotated[list[ShortText], Field(max_length=64)] = []
    models: Annotated[list[ShortText], Field(max_length=64)] = []
    region: ShortText = ""
    duration_minutes: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    lead_minutes: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    vcpu: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    memory_gib: Annotated[int, Field(ge=0, le=100_000_000)] = Field(0, alias="memoryGiB")
    spot: bool = False
    binding: ShortText = ""
    nodes: Annotated[int, Field(ge=0, le=10_000)] = 0
    pool: ShortText = ""
    users: Annotated[int, Field(ge=0, le=10_000)] = 0
    owner: Id | None = None


class PolicyDryRun(WireModel):
    """What would be decided, with a draft of a policy or without. Nothing is stored."""

    tenant_id: Id
    action: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    role: Literal["admin", "member"] | None = Field(None, description="absent: the caller's own")
    attributes: AskedAttributes = AskedAttributes()
    text: PolicyText | None = Field(None, description="a policy that is not saved yet")
    replaces: Id | None = Field(None, description="the id of the policy the text would replace")


class PolicyVerdict(AnswerModel):
    """The decision, the policies that made it, and for a denial why."""

    effect: Literal["allow", "deny"]
    policies: list[str]
    message: str
    details: dict[str, Any]
