"""Events on the wire: what happened, listed and streamed; and the catalogue of their types."""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from bettercompute.wire.base import (
    AnswerModel,
    EpochMs,
    PageQuery,
    TenantQuery,
)

TYPES_MAX = 100  # names and prefixes that one filter may have

#: A type, a prefix such as `reservation.*`, or several of them with commas between.
TypeNames = Annotated[str, StringConstraints(min_length=1, max_length=2_000)]
#: `reservation/rsv_…`, `device/GPU-…/m0-1g.10gb`
SubjectName = Annotated[
    str, StringConstraints(max_length=300, pattern=r"^[a-z]+/[A-Za-z0-9_./-]+$")
]
PositionText = Annotated[str, StringConstraints(min_length=3, max_length=39)]


class EventFilter(TenantQuery):
    """Which events: of some types, about one subject; an operator's may be of all tenants."""

    types: Annotated[
        list[TypeNames],
        Field(
            default_factory=list,
            max_length=TYPES_MAX,
            description="Types, or prefixes as `reservation.*`; commas between, or given again.",
        ),
    ]
    subject: Annotated[
        SubjectName | None,
        Field(
            description="What it is about, as `reservation/rsv_…`; of all of a kind say `types`."
        ),
    ] = None
    scope: Annotated[
        Literal["tenant", "platform"],
        Field(description="`platform`: the events of all tenants, for operators."),
    ] = "tenant"


class EventQuery(EventFilter, PageQuery):
    """Which events, and which page of them; from `from` on, and before `to`."""

    from_: Annotated[EpochMs | None, Field(alias="from")] = None
    to: EpochMs | None = None


class EventStreamQuery(EventFilter):
    """Which events, and behind which of them to begin."""

    after: Annotated[
        PositionText | None,
        Field(description="The id to go on behind; the header Last-Event-ID goes first."),
    ] = None


class EventScope(TenantQuery):
    """Whose events."""

    scope: Literal["tenant", "platform"] = "tenant"


class Event(AnswerModel):
    """Something that happened. It may come more than once, with the same id."""

    id: str
    type: str
    tenant_id: str
    subject: str
    data: dict[str, Any]
    time: int


class EventList(AnswerModel):
    """One page of events, the newest first; a stream goes on behind `position`."""

    items: list[Event]
    next_cursor: str | None = None
    position: str


class StreamReset(AnswerModel):
    """Data of `event: reset`: what happened before `position` may have been missed."""

    position: str
    detail: str


class EventType(AnswerModel):
    """A type of event: what it means, the JSON Schema of its whole event, and an example."""

    type: str
    meaning: str
    example: Event
    json_schema: Annotated[dict[str, Any], Field(alias="schema")]


class EventCatalog(AnswerModel):
    """Every type of event."""

    items: list[EventType]
