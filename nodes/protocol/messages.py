"""What agents and gateways say to each other (N4-N8): JSON over HTTP under ``/node/v1``.

Either side may be up to two releases older than the other, so both ignore fields and report kinds
they do not know. What they do know is strict: no type is guessed, every text and list is bounded,
and no text holds a NUL.

The protocol carries no instants that anything is judged by: a gateway measures how long ago it
heard of a node (C8), and tells waits and lifetimes as seconds from now.
"""

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter
from pydantic.alias_generators import to_camel

PREFIX = "/node/v1"
ENTRIES_PER_CALL_MAX = 1_000
REPORT_BODY_CHARS_MAX = 3 * 1024 * 1024
REPORTS_BYTES_MAX = 8 * 1024 * 1024
CAPABILITIES_MAX = 64
DEVICES_PER_ASSIGNMENT_MAX = 1_024
WAIT_SECONDS_MAX = 60

Text = Annotated[str, StringConstraints(max_length=1_000, pattern=r"^[^\x00]*$")]
Id = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,128}$")]
# Also device atoms: GPU-…, GPU-…/m0-1g.10gb+me, GPU-…/s3.
DeviceName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+/-]{0,254}$")]
Capability = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9]*([.-][a-z0-9]+){0,7}$")]
Base64 = Annotated[str, StringConstraints(max_length=1_024, pattern=r"^[A-Za-z0-9+/]*={0,2}$")]
Counter = Annotated[int, Field(ge=0, le=2**62)]


class ReportKind(StrEnum):
    """What a journal entry reports (N7)."""

    INVENTORY = "Inventory"
    ALLOCATION_BOUND = "AllocationBound"
    ALLOCATION_FAILED = "AllocationFailed"
    ALLOCATION_RELEASED = "AllocationReleased"
    ALLOCATION_USED = "AllocationUsed"
    DEVICE_HEALTH = "DeviceHealth"
    COMMAND_RESULT = "CommandResult"


USE = "allocations.use"  # the capability to say that devices are used


class Message(BaseModel):
    """Base of everything on this wire."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="ignore",
        strict=True,
        frozen=True,
    )

    def to_wire(self) -> dict[str, Any]:
        """This, as a JSON object."""
        return self.model_dump(mode="json", by_alias=True)

    @classmethod
    def from_json(cls, text: bytes | str) -> Self:
        """This, from JSON text. Raises ``pydantic.ValidationError``, whatever the text is."""
        return cls.model_validate_json(text)


class EnrollRequest(Message):
    """A one-time token and the public half of the key that the node made for itself."""

    token: Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[!-~]+$")]
    public_key: Base64


class EnrollAnswer(Message):
    """Who this node is from now on."""

    node_id: str
    kid: str


class ChallengeRequest(Message):
    """Somebody who says they are this node wants to say hello."""

    node_id: Id


class ChallengeAnswer(Message):
    """What hello must sign. It works once, for this node, for so long."""

    challenge: str
    expires_in_seconds: int


class Hello(Message):
    """The part of a hello that is signed: who, on which boot, able to do what."""

    node_id: Id
    kid: Id
    challenge: Annotated[str, StringConstraints(max_length=500, pattern=r"^[!-~]*$")]
    boot_id: Annotated[str, StringConstraints(max_length=255, pattern=r"^[^\x00]*$")] = ""
    agent_version: Annotated[str, StringConstraints(max_length=100, pattern=r"^[^\x00]*$")] = ""
    capabilities: Annotated[list[Capability], Field(max_length=CAPABILITIES_MAX)] = []
    last_epoch: Counter = 0
    # The node's own clock, for people who look for a wrong one. Nothing is judged by it (C8).
    clock_ms: Annotated[int, Field(ge=0, le=2**53)] | None = None


class HelloRequest(Message):
    """The hello as the JSON text that was signed, and the node's signature over it."""

    hello: Annotated[str, StringConstraints(max_length=16 * 1024)]
    signature: Base64


class HelloAnswer(Message):
    """The one live session of this node. An older epoch's token is refused from now on (C37)."""

    session_token: str
    epoch: int
    heartbeat_seconds: float
    applied_seq: int


class Limits(Message):
    """What a workload on these devices may use of its host (R31); 0 says no limit."""

    cpu_millis: Counter = 0
    memory_bytes: Counter = 0
    hugepages_1gi: Counter = Field(default=0, alias="hugepages1Gi")

    def any(self) -> bool:
        """Whether anything is limited."""
        return bool(self.cpu_millis or self.memory_bytes or self.hugepages_1gi)


class Assignment(Message):
    """Devices of this node that an allocation holds until it is no longer listed (R26).

    ``until`` is for people: an agent never drops a hold by its own clock (N15).
    """

    allocation_id: Id
    device_ids: Annotated[
        list[DeviceName], Field(min_length=1, max_length=DEVICES_PER_ASSIGNMENT_MAX)
    ]
    until: int = 0
    binding: str = "hold"
    limits: Limits = Limits()


class DesiredAnswer(Message):
    """All that this node should hold, and the generation of saying so (N6).

    ``ending`` lists allocations that the node may still hold, though nobody wants them any more.
    The node confirms each that it does not hold, also one that it never saw: without that, an
    allocation that came and went between two polls would stay unconfirmed for ever.
    """

    generation: int
    assignments: list[Assignment] = []
    ending: list[Id] = []


class ReportEntry(Message):
    """One line of the agent's journal. ``body`` is JSON text, exactly as it was signed."""

    seq: Annotated[int, Field(ge=1, le=2**62)]
    kind: Annotated[str, StringConstraints(max_length=64, pattern=r"^[A-Za-z]+$")]
    body: Annotated[str, StringConstraints(max_length=REPORT_BODY_CHARS_MAX)]
    signature: Base64 = ""
    kid: Annotated[str, StringConstraints(max_length=128, pattern=r"^[A-Za-z0-9_-]*$")] = ""


class ReportsRequest(Message):
    """Journal entries in order, each with a higher sequence number than the one before."""

    entries: Annotated[list[ReportEntry], Field(max_length=ENTRIES_PER_CALL_MAX)]


class Rejection(Message):
    """An entry that could not be read; it counts as applied, or it would block those behind it."""

    seq: int
    message: str


class ReportsAnswer(Message):
    """How far the journal is applied. A replay gets the same answer."""

    applied_seq: int
    rejected: list[Rejection] = []


class HeartbeatRequest(Message):
    """Nothing but a call."""


class HeartbeatAnswer(Message):
    """The session is alive."""

    epoch: int


class ReportBody(Message):
    """What every report says, signed: of which node, at which place of its journal.

    A relay can therefore neither move a report to another node or kind, nor replay an old one as
    if it were new.
    """

    node_id: Id
    seq: Annotated[int, Field(ge=1, le=2**62)]
    kind: ReportKind


class InventoryReport(ReportBody):
    """What the host is made of; ``inventory`` is read by ``bettercompute.agent.inventory``."""

    kind: Literal[ReportKind.INVENTORY] = ReportKind.INVENTORY
    inventory: dict[str, Any]


class AllocationBound(ReportBody):
    """The devices are held: workloads reach them by these CDI names, or by the env file."""

    kind: Literal[ReportKind.ALLOCATION_BOUND] = ReportKind.ALLOCATION_BOUND
    allocation_id: Id
    cdi_devices: Annotated[list[Text], Field(min_length=1, max_length=DEVICES_PER_ASSIGNMENT_MAX)]
    env_file: Text
    cgroup_parent: Text = ""


class AllocationFailed(ReportBody):
    """The node cannot hold these devices (N14)."""

    kind: Literal[ReportKind.ALLOCATION_FAILED] = ReportKind.ALLOCATION_FAILED
    allocation_id: Id
    reason: Annotated[str, StringConstraints(max_length=64, pattern=r"^[a-z][a-z0-9-]*$")]
    message: Text = ""


class AllocationReleased(ReportBody):
    """The node no longer holds these devices, whether it was asked to let go or lost them."""

    kind: Literal[ReportKind.ALLOCATION_RELEASED] = ReportKind.ALLOCATION_RELEASED
    allocation_id: Id
    reason: Annotated[str, StringConstraints(max_length=64, pattern=r"^[a-z][a-z0-9-]*$")]


class AllocationUsed(ReportBody):
    """A workload has begun to use the devices: said once of each allocation.

    An agent that would say so has the capability ``allocations.use``; the silence of any other
    means nothing.
    """

    kind: Literal[ReportKind.ALLOCATION_USED] = ReportKind.ALLOCATION_USED
    allocation_id: Id


class HealthOfDevice(Message):
    """Whether one card is fit to be booked."""

    device_id: DeviceName
    healthy: bool
    reason: Annotated[str, StringConstraints(max_length=255, pattern=r"^[^\x00]*$")] = ""


class DeviceHealth(ReportBody):
    """Cards whose health changed since the last inventory."""

    kind: Literal[ReportKind.DEVICE_HEALTH] = ReportKind.DEVICE_HEALTH
    devices: Annotated[list[HealthOfDevice], Field(min_length=1, max_length=256)]


AllocationReport = AllocationBound | AllocationFailed | AllocationReleased
KnownReport = InventoryReport | AllocationReport | AllocationUsed | DeviceHealth

BODIES: Mapping[str, TypeAdapter[KnownReport]] = {
    kind: TypeAdapter(model)
    for kind, model in (
        (ReportKind.INVENTORY, InventoryReport),
        (ReportKind.ALLOCATION_BOUND, AllocationBound),
        (ReportKind.ALLOCATION_FAILED, AllocationFailed),
        (ReportKind.ALLOCATION_RELEASED, AllocationReleased),
        (ReportKind.ALLOCATION_USED, AllocationUsed),
        (ReportKind.DEVICE_HEALTH, DeviceHealth),
    )
}


def canonical(body: Mapping[str, Any]) -> str:
    """The one JSON text of an object: sorted keys, no spaces, nothing but ASCII."""
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
