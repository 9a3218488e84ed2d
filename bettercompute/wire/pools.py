"""Pools and quotas on the wire (A4)."""

from typing import Literal

from pydantic import Field

from bettercompute.wire.base import AnswerModel, EpochMs, TenantQuery
from bettercompute.wire.reservations import DeviceClass


class TimelineQuery(TenantQuery):
    """Which window: by default the week from now. At most 92 days."""

    start: EpochMs | None = Field(None, alias="from")
    end: EpochMs | None = Field(None, alias="to")


class PoolDevices(AnswerModel):
    """Usable devices of one kind."""

    device_class: DeviceClass = Field(alias="class")
    model: str
    profile: str | None
    memory_gib: int = Field(alias="memoryGiB")
    total: int
    free: int


class PoolLimits(AnswerModel):
    """What the pool's policy allows, in milliseconds; null does not limit."""

    max_ahead_ms: int | None
    max_duration_ms: int | None
    kubernetes: bool


class Pool(AnswerModel):
    """A pool that the caller's tenant may book."""

    id: str
    name: str
    region: str
    tenant_id: str
    owned: bool
    placer: str
    nodes: int
    devices: list[PoolDevices]
    total: int
    free: int
    next_free_at: int | None
    limits: PoolLimits
    version: int


class PoolList(AnswerModel):
    """Every pool the tenant may book, its own first."""

    items: list[Pool]
    next_cursor: str | None = None


class Block(AnswerModel):
    """How many requests of so many devices on one node fit at once."""

    size: int
    requests: int


class FragmentationKind(AnswerModel):
    """How the free devices of one kind lie together, on the nodes that take work now."""

    device_class: DeviceClass = Field(alias="class")
    model: str
    profile: str | None
    total: int
    free: int
    #: the most that one node has free
    largest_block: int
    #: nodes of which every device is free, and how many devices these have
    whole_nodes: int
    in_whole_nodes: int
    blocks: list[Block]
    #: thousandths of the free devices that requests of 1, 2, 4, … on one node cannot use
    fragmentation_milli: int


class Fragmentation(AnswerModel):
    """What of a pool is free in one piece, now."""

    pool_id: str
    kinds: list[FragmentationKind]


class TimelineBooking(AnswerModel):
    """When a device is taken; by whom is said of the caller's own bookings only (R38)."""

    start: int
    end: int
    reservation_id: str | None


class TimelineDevice(AnswerModel):
    """A device and its bookings in order."""

    id: str
    node_id: str
    node: str
    device_class: DeviceClass = Field(alias="class")
    model: str
    profile: str | None
    usable: bool
    bookings: list[TimelineBooking]


class TimelineMaintenance(AnswerModel):
    """Announced work on a node, or on all of the pool where it names none: nothing is booked."""

    id: str
    node_id: str | None
    node: str | None
    start: int
    end: int
    reason: str


class CapacityStep(AnswerModel):
    """From this moment on so many usable devices are free."""

    at: int
    free: int


class Timeline(AnswerModel):
    """A pool over time."""

    pool_id: str
    start: int = Field(alias="from")
    end: int = Field(alias="to")
    capacity: list[CapacityStep]
    devices: list[TimelineDevice]
    maintenance: list[TimelineMaintenance] = []


class Quota(AnswerModel):
    """What a tenant holds of a resource, and may hold: over all pools, in one, or by an offer."""

    resource: str
    used: int
    max: int
    scope: Literal["tenant", "pool", "offer"] = "tenant"
    pool_id: str | None = None
    pool_offer_id: str | None = None


class QuotaList(AnswerModel):
    """Every quota of a tenant. A resource that its own quotas do not list is granted nothing."""

    items: list[Quota]
    next_cursor: str | None = None
