"""Webhooks on the wire: endpoints, what they were sent, and what came back (A6)."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from bettercompute.states import EndpointState
from bettercompute.wire.base import AnswerModel, Cursor, EpochMs, Id, PageQuery, WireModel

URL_MAX = 2_048
EVENT_TYPES_MAX = 100
#: What a receiver has, and what two rotations made whose answers were lost. Each of them costs
#: every message a signature; the schema has the number, too.
FORMER_SECRETS_MAX = 3

Scope = Literal["tenant", "platform"]
DeliveryState = Literal["pending", "delivered", "failed"]
DisabledReason = Literal["request", "gone", "failing", "owner-left"]
Url = Annotated[str, StringConstraints(min_length=1, max_length=URL_MAX)]
Description = Annotated[str, StringConstraints(max_length=200)]
#: `reservation.placed`, or all of a kind: `reservation.*`
EventTypeFilter = Annotated[
    str, StringConstraints(max_length=100, pattern=r"^[a-z]+\.([a-z][a-z-]*|\*)$")
]
EventTypes = Annotated[list[EventTypeFilter], Field(max_length=EVENT_TYPES_MAX)]
#: `reservation/rsv_…`, or all of a kind: `reservation/*`
SubjectFilter = Annotated[
    str, StringConstraints(max_length=300, pattern=r"^([a-z]+/([A-Za-z0-9_./-]+|\*))?$")
]


class WebhookQuery(PageQuery):
    """Which endpoints to list: the tenant's, or as an operator the platform's."""

    scope: Scope = "tenant"


class WebhookCreate(WireModel):
    """Where to send which events. `eventTypes` empty: all; `subject` empty: about anything."""

    tenant_id: Id
    scope: Scope = "tenant"
    url: Url
    description: Description = ""
    event_types: EventTypes = []
    subject: SubjectFilter = ""
    enabled: bool = True


class WebhookUpdate(WireModel):
    """What to change; what is absent stays."""

    tenant_id: Id
    # Made, not given, so that the document of the API promises no default: there is none.
    url: Url = Field(default_factory=str)
    description: Description = Field(default_factory=str)
    event_types: EventTypes = Field(default_factory=list)
    subject: SubjectFilter = Field(default_factory=str)
    enabled: bool = Field(default_factory=bool)


class SecretRotation(WireModel):
    """The secret so far signs too for 24 hours more; with `expirePrevious` no former one does."""

    tenant_id: Id
    expire_previous: bool = False


class FormerSecret(AnswerModel):
    """One that was replaced; messages are signed with it, too."""

    until: int


class Webhook(AnswerModel):
    """An endpoint, without its secret."""

    id: str
    #: null: the platform's, which is sent the events of all tenants
    tenant_id: str | None
    owner_identity_id: str
    url: str
    description: str
    event_types: list[str]
    subject: str
    state: EndpointState
    disabled_reason: DisabledReason | None
    disabled_at: int | None
    #: what is wrong with it, for people; null while all is well
    notice: str | None
    #: since when nothing that was sent was taken
    failing_since: int | None
    last_success_at: int | None
    #: until when a former secret signs too: the last of them to end
    previous_secret_until: int | None
    #: those that sign too, the newest first
    former_secrets: list[FormerSecret]
    version: int
    created_at: int


class WebhookWithSecret(Webhook):
    """Answer of create and rotate; `secret` is shown this once."""

    secret: str


class WebhookList(AnswerModel):
    """One page, newest first."""

    items: list[Webhook]
    next_cursor: str | None


class DeliveryQuery(PageQuery):
    """Which deliveries of a webhook to list."""

    state: list[DeliveryState] = []
    event_id: Id | None = None
    event_type: Id | None = None


class Attempt(AnswerModel):
    """One time that it was sent."""

    number: int
    started_at: int
    #: as sent, without the signature
    request_headers: dict[str, str]
    #: null: there was no answer
    response_status: int | None
    #: its first 4 KiB
    response_head: str
    latency_ms: int
    #: why it does not count as delivered; empty: it does
    error: str
    #: null: it is not tried again by itself
    retry_at: int | None


class Delivery(AnswerModel):
    """One event for one endpoint."""

    id: str
    webhook_id: str
    event_id: str
    event_type: str
    subject: str
    event_time: int
    test: bool
    state: DeliveryState
    attempts: int
    #: when it is tried next; null: not again by itself, or not while its webhook is disabled
    next_at: int | None
    created_at: int
    finished_at: int | None


class DeliveryWithAttempts(Delivery):
    """With the bytes that are sent, and each time they were."""

    body: str
    tries: list[Attempt]


class DeliveryList(AnswerModel):
    """One page, newest first."""

    items: list[Delivery]
    next_cursor: str | None


class RedeliverRange(WireModel):
    """Send again what happened in `[from, to)`: what failed, or with `all` whatever was sent."""

    tenant_id: Id
    since: EpochMs = Field(alias="from")
    until: EpochMs = Field(alias="to")
    which: Literal["failed", "all"] = "failed"
    #: go on behind what was sent again: `nextCursor` of the answer before
    cursor: Cursor | None = None


class Redelivered(AnswerModel):
    """How many are sent again; with `more` there are others: ask again with `nextCursor`."""

    count: int
    more: bool
    next_cursor: str | None
