"""What policies would decide, on the wire (R38)."""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from bettercompute.states import ReservationState
from bettercompute.wire.base import AnswerModel, Id, WireModel
from bettercompute.wire.iam import PolicyText, ShortText
from bettercompute.wire.reservations import PRIORITY_MAX, ReservationRequest

RECENT_MAX = 500


class AskedAttributes(WireModel):
    """What a decision sees (R38); everything absent is zero or empty."""

    gpus: Annotated[int, Field(ge=0, le=4_194_304)] = 0
    gpu_milli: Annotated[int, Field(ge=0, le=4_194_304_000)] = 0
    classes: Annotated[list[ShortText], Field(max_length=64)] = []
    models: Annotated[list[ShortText], Field(max_length=64)] = []
    region: ShortText = ""
    duration_minutes: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    lead_minutes: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    ahead_minutes: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    vcpu: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    memory_gib: Annotated[int, Field(ge=0, le=100_000_000)] = Field(0, alias="memoryGiB")
    spot: bool = False
    binding: ShortText = ""
    nodes: Annotated[int, Field(ge=0, le=10_000)] = 0
    priority: Annotated[int, Field(ge=-PRIORITY_MAX, le=PRIORITY_MAX)] = 0
    users: Annotated[int, Field(ge=0, le=10_000)] = 0
    held_gpus: Annotated[int, Field(ge=0, le=4_194_304)] = 0
    held_reservations: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    pool: ShortText = ""
    owner: Id | None = None


class PolicyDryRun(WireModel):
    """What would be decided, with a draft of a policy or without. Nothing is stored."""

    tenant_id: Id
    action: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    role: Literal["admin", "member"] | None = Field(None, description="absent: the caller's own")
    delegated: bool | None = Field(
        None, description="whether an agent asks for the person; absent: as the caller does"
    )
    attributes: AskedAttributes = AskedAttributes()
    reservation: ReservationRequest | None = Field(
        None, description="a body of a create, in place of attributes"
    )
    text: PolicyText | None = Field(None, description="a policy that is not saved yet")
    replaces: Id | None = Field(None, description="the id of the policy the text would replace")
    recent: Annotated[int, Field(ge=0, le=RECENT_MAX)] = Field(
        0, description="so many of the tenant's latest reservations are judged as well"
    )


class WouldDeny(AnswerModel):
    """A reservation that is there, and that would not have been let through."""

    reservation_id: str
    owner_identity_id: str
    state: ReservationState
    created_at: int
    policies: list[str]
    message: str


class RecentVerdicts(AnswerModel):
    """How the tenant's latest reservations would have been judged."""

    judged: int
    denied: list[WouldDeny]


class PolicyVerdict(AnswerModel):
    """The decision, the policies that made it, for a denial why, and what they were told."""

    effect: Literal["allow", "deny"]
    policies: list[str]
    message: str
    details: dict[str, Any]
    attributes: dict[str, Any] = {}
    recent: RecentVerdicts | None = None
