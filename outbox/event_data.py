"""What the events of each type say beside their subject; the catalogue names which."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class EventData(BaseModel):
    """Base of every event's data: camelCase outside, nothing unknown."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True
    )


class ReservationChanged(EventData):
    """What every event of a reservation says."""

    state: str
    pool_id: str
    reason: str | None = None


class ReservationPlaced(ReservationChanged):
    """Where it was placed, and when."""

    node_ids: list[str]
    start: int
    end: int


class ReservationExtended(ReservationChanged):
    """Until when it goes now."""

    end: int


class ReservationReleased(ReservationChanged):
    """Why it ended."""

    reason: Literal["release", "expired", "lease-lapsed", "preempted", "no-show"]


class ReservationEnding(ReservationChanged):
    """When it ends."""

    end: int


class ReservationMaintenance(ReservationChanged):
    """When its nodes are worked on."""

    start: int
    end: int


class ReservationUsersChanged(ReservationChanged):
    """Who may use it from now on beside its owner, and who may not any more."""

    added: list[str]
    removed: list[str]


class ReservationReassigned(ReservationChanged):
    """Who has it now."""

    reservation_id: str
    from_: str = Field(alias="from")
    to: str
    reason: str


class SeriesChanged(EventData):
    """What every event of a series says; of an occurrence also when it was to begin, and why."""

    state: str
    pool_id: str
    occurrence: int | None = None
    reservation_id: str | None = None
    reason: str | None = None
    message: str | None = None


class ConfirmationChanged(EventData):
    """Who asks whom for what, and until when it can be answered and used."""

    state: str
    action: str
    resource_id: str
    account_id: str
    agent: str
    expires_at: int
    reason: str | None = None


class BindingRejected(ReservationChanged):
    """Whose report did not count, and why."""

    allocation_id: str
    node_id: str
    reason: str


class NodeChanged(EventData):
    """What every event of a node says."""

    pool_id: str
    name: str
    state: str | None = None
    reason: str | None = None


class NodeMaintenance(NodeChanged):
    """When maintenance of a node is planned, and what for."""

    maintenance_id: str
    start: int
    end: int
    reason: str


class DeviceChanged(EventData):
    """What every event of a device says."""

    pool_id: str
    node_id: str
    reason: str | None = None


class PoolChanged(EventData):
    """What every event of a pool says."""

    pool_id: str
    name: str | None = None


class PoolMaintenance(PoolChanged):
    """When maintenance of all of a pool is planned, and what for."""

    maintenance_id: str
    start: int
    end: int
    reason: str


class OfferChanged(EventData):
    """To whom a pool is offered, and the most that it may hold there by the offer."""

    pool_id: str
    to_tenant_id: str
    resources: dict[str, int] | None = None


class QuotaChanged(EventData):
    """The new limit of one resource, over all pools or in one; without a maximum it is gone."""

    resource: str
    max: int | None = None
    pool_id: str | None = None


class WebhookChanged(EventData):
    """Which webhook it is."""

    webhook_id: str


class WebhookDisabled(WebhookChanged):
    """Which webhook is sent nothing any more, and why."""

    reason: Literal["request", "gone", "failing", "owner-left"]
