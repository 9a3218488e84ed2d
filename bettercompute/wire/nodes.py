"""Nodes on the wire: what operators and pool owners see and do (A4, N18)."""

from typing import Annotated

from pydantic import Field

from bettercompute.states import NodeState
from bettercompute.wire.base import (
    AnswerModel,
    Id,
    PageQuery,
    WireModel,
)


class NodeQuery(PageQuery):
    """Which nodes, and which page of them."""

    pool_id: Id | None = None
    state: NodeState | None = None


class NodeVerb(WireModel):
    """Body of a node's verbs; with `preview` it only says what it would affect."""

    tenant_id: Id | None = None
    preview: bool = False


class NodeCondition(AnswerModel):
    """Something that is true of a node now."""

    type: str
    reason: str
    message: str
    since: int


class NodeResource(AnswerModel):
    """An amount of the host: how much may be booked, and the peak of what is."""

    resource: str
    allocatable: int
    allocated: int


class NodeDevice(AnswerModel):
    """A GPU or a part of one."""

    id: str
    gpu_id: str
    kind: str
    bookable: bool
    model: str
    product: str
    profile: str
    memory_mib: Annotated[int, Field(alias="memoryMiB")]
    index: int
    numa_node: int | None
    nvlink_group: int | None
    healthy: bool
    health_reason: str
    quarantined: bool


class NodeSummary(AnswerModel):
    """A node in a list. It takes new work only while `eligible`."""

    id: str
    pool_id: str
    name: str
    state: NodeState
    cordoned: bool
    eligible: bool
    bookable_devices: int
    healthy_devices: int
    conditions: list[str]
    version: int


class Node(NodeSummary):
    """A node with all we know of it."""

    labels: dict[str, str]
    system_labels: dict[str, str]
    taints: list[dict[str, str]]
    resources: list[NodeResource]
    devices: list[NodeDevice]
    condition_details: list[NodeCondition]
    agent_version: str
    last_seen: int | None
    created_at: int


class NodeList(AnswerModel):
    """One page of nodes."""

    items: list[NodeSummary]
    next_cursor: str | None = None


class NodeEffect(AnswerModel):
    """What is on the node, and stays: allocations, their devices, and when the last one ends."""

    allocations: int
    devices: int
    last_end: int | None


class NodeOperation(AnswerModel):
    """Answer of a node's verbs."""

    node: Node
    applied: bool
    effect: NodeEffect
