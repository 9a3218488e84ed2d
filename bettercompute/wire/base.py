"""What every model of the wire shares: camelCase outside, snake_case inside, nothing unknown."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

TEXT_MAX = 1_000
PAGE_MAX = 200
PAGE_DEFAULT = 50
MILLISECONDS_MAX = 253_402_300_799_999  # the end of year 9999

Text = Annotated[str, StringConstraints(max_length=TEXT_MAX)]
Id = Annotated[str, StringConstraints(min_length=1, max_length=255)]
EpochMs = Annotated[int, Field(ge=0, le=MILLISECONDS_MAX)]


class WireModel(BaseModel):
    """Base of requests: strict types, unknown fields refused at any depth (R2)."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        strict=True,
        frozen=True,
    )


#: As long as the longest name that a list may be ordered by.
CURSOR_MAX = 1_024
Cursor = Annotated[str, StringConstraints(min_length=1, max_length=CURSOR_MAX)]
Limit = Annotated[int, Field(ge=1, le=PAGE_MAX)]


class TenantQuery(WireModel):
    """For which tenant to act; absent: the only one there is."""

    tenant_id: Id | None = None


class TenantBody(WireModel):
    """For which tenant to act; the body of what says nothing else, such as release or revoke."""

    tenant_id: Id


class PageQuery(TenantQuery):
    """Which page of a list: `cursor` is the `nextCursor` of the one before."""

    limit: Limit = PAGE_DEFAULT
    cursor: Cursor | None = None


class AnswerModel(BaseModel):
    """Base of answers: a client of an older release ignores what it does not know."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True
    )
