"""Reservations on the wire: the request (R2), the object answered (R5), the verbs (A4)."""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, RootModel, StringConstraints, Tag

from bettercompute.states import AllocationState, ReservationState
from bettercompute.wire.base import (
    AnswerModel,
    Id,
    PageQuery,
    Text,
    WireModel,
)
from bettercompute.wire.branches import (
    LIST,
    NUMBER,
    OBJECT,
    TEXT,
    DurationText,
    InstantText,
    by_kind,
)
from bettercompute.wire.visible import VisibleState
from bettercompute.wire.waiting import Waiting

COUNT_MAX = 4_096
GANG_NODES_MAX = 1_024
KEY_MAX = 255
VCPU_MAX = 4_096
MEMORY_GIB_MAX = 65_536
HUGEPAGES_MAX = 65_536
PRIORITY_MAX = 1_000
USERS_MAX = 256

IdempotencyKey = Annotated[str, StringConstraints(min_length=1, max_length=KEY_MAX)]
Labels = Annotated[
    dict[Annotated[str, StringConstraints(min_length=1, max_length=253)], Text],
    Field(max_length=64),
]
Count = Annotated[int, Field(ge=1, le=COUNT_MAX)]


class DeviceClass(StrEnum):
    """What is reserved (R3)."""

    GPU = "gpu"
    MIG = "gpu.mig"
    SLOT = "gpu.slot"


class Topology(StrEnum):
    """How the devices of one line must be connected (R3)."""

    ANY = "any"
    SAME_NODE = "same-node"
    SAME_NUMA = "same-numa"
    NVLINK_ALL = "nvlink-all"


class GangTopology(StrEnum):
    """Where a gang's nodes must be (R16)."""

    ANY = "any"
    SAME_RACK = "same-rack"
    SAME_SWITCH = "same-switch"


class Binding(StrEnum):
    """How the devices reach a workload (R26-R28). `instance` is refused as UNSUPPORTED."""

    HOLD = "hold"
    KUBERNETES = "kubernetes"
    NODE = "node"
    INSTANCE = "instance"


class CountRange(WireModel):
    """As many as fit, between these."""

    min: Count
    max: Count


CountOrRange = Annotated[
    Annotated[Count, NUMBER] | Annotated[CountRange, OBJECT],
    by_kind("should be a whole number, or an object with min and max"),
]


TextOrNumber = Annotated[
    Annotated[Text, TEXT] | Annotated[int, NUMBER], by_kind("should be text or a whole number")
]


class SelectorTerm(WireModel):
    """One condition on a device or its node: model, memoryGiB, driver, or a label."""

    key: Annotated[str, StringConstraints(min_length=1, max_length=253)]
    op: Literal["=", "!=", "in", "exists", ">="] = "="
    value: TextOrNumber | None = None
    values: Annotated[list[TextOrNumber], Field(min_length=1, max_length=64)] | None = None


# Terms that must all hold; an object is short for equalities: {"model": "H100"}.
Selector = Annotated[
    Annotated[list[SelectorTerm], Field(max_length=32), LIST]
    | Annotated[
        dict[Annotated[str, StringConstraints(min_length=1, max_length=253)], TextOrNumber],
        Field(max_length=32),
        OBJECT,
    ],
    by_kind("should be a list of terms, or an object of equalities"),
]


class DeviceLine(WireModel):
    """So many devices of one class. With `anyOf`, the alternatives in order of preference."""

    device_class: DeviceClass = Field(alias="class")
    count: CountOrRange
    profile: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = None
    topology: Topology | None = None
    selector: Selector | None = None


class AnyOfLine(WireModel):
    """Alternatives in place of one device line, the first that fits wins."""

    any_of: Annotated[list[DeviceLine], Field(min_length=1, max_length=16)] = Field(alias="anyOf")


def _line_branch(value: object) -> str:
    if isinstance(value, AnyOfLine) or (isinstance(value, dict) and "anyOf" in value):
        return "Alternatives"
    return "Line"


DeviceEntry = Annotated[
    Annotated[AnyOfLine, Tag("Alternatives")] | Annotated[DeviceLine, Tag("Line")],
    Discriminator(_line_branch),
]


class Resources(WireModel):
    """Host resources per node (R30); below the pool's per-GPU share they are raised to it."""

    vcpu: Annotated[int, Field(ge=0, le=VCPU_MAX)] | None = None
    memory_gib: Annotated[int, Field(ge=0, le=MEMORY_GIB_MAX)] | None = Field(
        None, alias="memoryGiB"
    )
    hugepages_1gi: Annotated[int, Field(ge=0, le=HUGEPAGES_MAX)] | None = Field(
        None, alias="hugepages1Gi"
    )


class Gang(WireModel):
    """So many nodes, each giving the device lines, all or nothing (R16)."""

    nodes: Annotated[int, Field(ge=1, le=GANG_NODES_MAX)]
    topology: GangTopology = GangTopology.ANY


class NodeProfile(WireModel):
    """What to deploy on a machine leased whole (R28)."""

    profile_id: Id
    profile_version: Id | None = None


class Toleration(WireModel):
    """A taint this work accepts."""

    key: Annotated[str, StringConstraints(min_length=1, max_length=253)]
    op: Literal["=", "exists"] = "="
    value: Text | None = None


class Recurrence(WireModel):
    """A repeating window: a part of RFC 5545's RRULE, whose local time stays the same in a zone."""

    rule: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    time_zone: Annotated[str, StringConstraints(min_length=1, max_length=64)]


class Wait(WireModel):
    """Hold the answer until placed; more than 30,000 ms is capped (R14)."""

    timeout_ms: Annotated[int, Field(ge=0)]


Devices = Annotated[list[DeviceEntry], Field(min_length=1, max_length=16)]


class RequestTerms(WireModel):
    """What is asked for beside which devices, and when."""

    tenant_id: Id
    binding: Binding = Binding.HOLD
    resources: Resources | None = None
    gang: Gang | None = None
    lease_seconds: Annotated[int, Field(ge=1, le=157_680_000)] | None = None
    spot: bool = False
    node: NodeProfile | None = None
    tolerations: Annotated[list[Toleration], Field(max_length=64)] | None = None
    labels: Labels | None = None
    priority: Annotated[int, Field(ge=-PRIORITY_MAX, le=PRIORITY_MAX)] = 0
    users: Annotated[list[Id], Field(max_length=USERS_MAX)] | None = None
    recurrence: Recurrence | None = None
    idempotency_key: IdempotencyKey | None = None
    wait: Wait | None = None


class ReservationRequest(RequestTerms):
    """What a create and a preview share."""

    pool_id: Id
    devices: Devices
    duration: DurationText
    start: InstantText | None = None
    #: Of the capacity offer that it was taken from; a preview has none.
    offer_id: Id | None = None


class OfferTaking(RequestTerms):
    """A create that takes a capacity offer. What the offer fixes is left out, or as it says."""

    offer_id: Id
    pool_id: Id | None = None
    devices: Devices | None = None
    duration: DurationText | None = None
    start: InstantText | None = None


def _create_branch(value: object) -> str:
    taking = isinstance(value, dict) and value.get("offerId") is not None
    return "Offer" if taking or isinstance(value, OfferTaking) else "Request"


class NewReservation(
    RootModel[
        Annotated[
            Annotated[ReservationRequest, Tag("Request")] | Annotated[OfferTaking, Tag("Offer")],
            Discriminator(_create_branch),
        ]
    ]
):
    """A whole request; or with `offerId` the capacity offer that it takes."""


class UsersChange(WireModel):
    """Whom to let use it, and whom not any more: ids of members of the tenant."""

    tenant_id: Id
    add: Annotated[list[Id], Field(max_length=USERS_MAX)] = []
    remove: Annotated[list[Id], Field(max_length=USERS_MAX)] = []


class ExtendRequest(WireModel):
    """A later end: exactly one of `until` (an instant) and `by` (a duration) (R33)."""

    tenant_id: Id
    until: InstantText | None = None
    by: DurationText | None = None
    idempotency_key: IdempotencyKey | None = None


class Window(AnswerModel):
    """`[start, end)` in epoch milliseconds."""

    start: int
    end: int


class Condition(AnswerModel):
    """Something that is true of a reservation now."""

    type: str
    status: Literal["True", "False", "Unknown"] = "True"
    reason: str
    message: str
    since: int


class NodeBinding(AnswerModel):
    """How the devices reach a workload on one node."""

    node_id: str
    cdi_devices: list[str]
    env_file: str
    cgroup_parent: str | None = None
    attested: bool = False


class Allocation(AnswerModel):
    """A reservation's part on one node."""

    id: str
    node_id: str
    #: what the node is called
    node: str | None = None
    device_ids: list[str]
    state: AllocationState
    binding: NodeBinding | None = None


class Operation(AnswerModel):
    """Whether placing is still under way (R5)."""

    id: str
    state: Literal["running", "waiting", "succeeded", "failed"]


class Quote(AnswerModel):
    """GPU-hours of the whole window, and their price where the pool has one."""

    gpu_hours: float
    price: str | None = None
    currency: str | None = None


class Reservation(AnswerModel):
    """The object answered (R5)."""

    id: str
    tenant_id: str
    pool_id: str
    state: ReservationState
    request: dict[str, Any]
    during: Window | None
    owner_identity_id: str
    idempotency_key: str
    conditions: list[Condition]
    binding: NodeBinding | None
    operation: Operation
    version: int
    host_share: dict[str, int]
    allocations: list[Allocation]
    quote: Quote
    created_at: int
    reason: str | None = None
    #: of which series it is an occurrence, and when that has it begin
    series_id: str | None = None
    occurrence: int | None = None
    #: when it ends unless it is renewed (R32); null without a lease
    lease_until: int | None = None
    #: the agent that asked for it for its owner; null where the owner did
    agent: str | None = None
    #: what its owner was asked before it (R36); null where nobody had to be
    confirmation_id: str | None = None
    #: who may use it beside its owner: ids of members of the tenant
    users: list[str] = []
    #: its place in line and why it waits, while it is pending; changes without its version
    waiting: Waiting | None = None


class Extended(AnswerModel):
    """Whether the end moved; if not, until when it could, where something bounds that."""

    reservation: Reservation
    extended: bool
    available_until: int | None = None


class Extension(AnswerModel):
    """The latest end that an extension could reach now; null where nothing bounds it (R22)."""

    available_until: int | None


class ReservationList(AnswerModel):
    """One page, newest first."""

    items: list[Reservation]
    next_cursor: str | None


class ReservationQuery(PageQuery):
    """Which reservations, and which page of them (R37)."""

    scope: Literal["mine", "shared", "all"] = "mine"
    state: list[VisibleState] = []
    pool_id: Id | None = None
    series_id: Id | None = None
