"""Accounts, tokens and policies on the wire."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints

from bettercompute.wire.base import AnswerModel, EpochMs, Id, PageQuery, WireModel

NAME_MAX = 100
Name = Annotated[str, StringConstraints(min_length=1, max_length=NAME_MAX, strip_whitespace=True)]
ShortText = Annotated[str, StringConstraints(max_length=200)]
PolicyScope = Literal["tenant", "platform"]
PolicyText = Annotated[str, StringConstraints(min_length=1, max_length=32_768)]


class TenantSeat(AnswerModel):
    """A tenant the account may act for, and its role there."""

    id: str
    slug: str
    name: str
    role: Literal["admin", "member"]


#: What can wait for a person: each of these spends an approval in the transaction of its change.
Holdable = Literal[
    "compute:reservations:create",
    "compute:reservations:extend",
    "compute:reservations:release",
    "compute:reservations:share",
]


def _printable(text: str) -> str:
    """It stands in sentences, mails and terminals, so it must neither break nor turn a line."""
    if not text.isprintable():
        raise ValueError("must be one line of printable characters")
    return text


AgentName = Annotated[Name, AfterValidator(_printable)]


class DelegationAsk(WireModel):
    """Have an agent use the token: its name, and the actions that wait for the person (R36)."""

    agent: AgentName
    confirm: Annotated[list[Holdable], Field(max_length=20)] = []


class Delegation(AnswerModel):
    """Which agent uses the token, and which actions wait for the person it acts for."""

    agent: str
    confirm: list[str]


class TokenName(AnswerModel):
    """The token that made the request."""

    id: str
    name: str
    #: null where its owner uses it
    delegation: Delegation | None = None


class WhoAmI(AnswerModel):
    """Who the request is from."""

    account_id: str
    username: str
    operator: bool
    time_zone: str
    tenants: list[TenantSeat]
    token: TokenName | None


class TokenQuery(PageQuery):
    """Which tokens to list."""


class TokenCreate(WireModel):
    """A token for oneself at a tenant."""

    tenant_id: Id
    name: Name
    expires_at: EpochMs | None = Field(None, description="absent: never")
    delegation: DelegationAsk | None = Field(None, description="absent: for oneself")


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
    #: null where its owner uses it
    delegation: Delegation | None = None


class TokenCreated(Token):
    """A new token; `token` is shown this once."""

    token: str


class TokenList(AnswerModel):
    """One page, newest first."""

    items: list[Token]
    next_cursor: str | None


class MemberQuery(PageQuery):
    """Which members to list."""


class Member(AnswerModel):
    """An account that can act for the tenant."""

    account_id: str
    username: str
    role: Literal["admin", "member"]


class MemberList(AnswerModel):
    """One page, by name."""

    items: list[Member]
    next_cursor: str | None


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


class PolicyExample(AnswerModel):
    """A policy to start from."""

    name: str
    about: str
    text: str


class PolicyExampleList(AnswerModel):
    """The shipped examples; none of them binds anybody until it is saved."""

    items: list[PolicyExample]
    next_cursor: str | None = None


class PolicyList(AnswerModel):
    """One page of the policies that bind a tenant, the platform's first."""

    items: list[Policy]
    next_cursor: str | None = None
