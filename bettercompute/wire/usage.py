"""Usage and budgets on the wire (R39)."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from bettercompute.wire.base import AnswerModel, EpochMs, Id, TenantQuery
from bettercompute.wire.reservations import Window

Grouping = Literal["day", "pool", "owner"]
GROUPINGS: tuple[Grouping, ...] = ("day", "pool", "owner")


class UsageQuery(TenantQuery):
    """Which span of time, and what to group by (R39)."""

    start: EpochMs = Field(alias="from")
    end: EpochMs = Field(alias="to")
    #: day, pool, owner: as a list with commas, or several times
    by: list[Annotated[str, StringConstraints(max_length=64)]] = []
    pool_id: Id | None = None
    #: whose midnights cut days; the caller's own where it is not named
    time_zone: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = None


class UsageRow(AnswerModel):
    """Device-time of one group, in GPU-hours; what it is not grouped by is null."""

    day: str | None
    pool_id: str | None
    owner_identity_id: str | None
    #: the owner's user name
    owner: str | None = None
    gpu_hours: float
    idle_gpu_hours: float


class Usage(AnswerModel):
    """What a tenant's reservations had up to now; what is still to come is not in it."""

    start: int = Field(alias="from")
    end: int = Field(alias="to")
    items: list[UsageRow]


class Budget(AnswerModel):
    """How many GPU-hours the tenant may reserve in a period, and what is left in the present one.

    `used` is metered up to now, `reserved` is what is planned from now to the period's end.
    """

    id: str
    name: str
    pool_id: str | None
    period: Literal["month", "window"]
    time_zone: str
    during: Window
    gpu_hours: float
    used: float
    reserved: float
    left: float


class BudgetList(AnswerModel):
    """Every budget of the tenant. What none of them counts is not limited by any."""

    items: list[Budget]
    next_cursor: str | None = None
