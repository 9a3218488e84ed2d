"""What a preview judges besides where it fits: denials, quotas, and who would give way (R20)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from bettercompute import clock, units
from bettercompute.iam import decisions
from bettercompute.iam.callers import Caller
from bettercompute.wire import capacity as wire
from pools import attributes, catalogue, quota, shares
from pools.catalogue import PoolAccess
from pools.planner.plan import Plan
from pools.requests import NormalisedRequest
from pools.shares import Share

CREATE = "compute:reservations:create"
NOT_YET_AN_ID = "rsv_preview"

_OF_QUOTA: Mapping[quota.Scope, str] = {
    "tenant": "",
    "pool": " in this pool",
    "offer": " by this pool's offer",
}


@dataclass(frozen=True, slots=True)
class Room:
    """Where it would go once others have given way, from when on, and how many of them."""

    plan: Plan
    start: datetime
    giving_way: int


# Whoever knows of reservations says whether some would give way; this app does not.
MakeRoom = Callable[[PoolAccess, NormalisedRequest, Share], Room | None]


class Beyond(Protocol):
    """Whoever knows what is spent: what a create would refuse of it."""

    def __call__(
        self,
        access: PoolAccess,
        request: NormalisedRequest,
        now: datetime,
        *,
        beside: Sequence[NormalisedRequest] = (),
    ) -> Sequence[wire.Reason]:
        """The reasons; ``beside`` is what would be booked before it."""


def why_not(
    caller: Caller,
    access: PoolAccess,
    request: NormalisedRequest,
    share: Share,
    *,
    now: datetime,
    beyond: Beyond | None = None,
) -> list[wire.Reason]:
    """Why the caller may not have it, whatever is free: policies, limits, quotas, budgets."""
    charges = shares.charges(request, share, access)
    after = quota.after(caller.tenant_id, charges, pool_id=access.pool_id)
    return [
        *denials(caller, access, request, share, clock.to_ms(now)),
        *over_quota(after, charges),
        *(() if beyond is None else beyond(access, request, now)),
    ]


def denials(
    caller: Caller,
    access: PoolAccess,
    request: NormalisedRequest,
    share: Share,
    now_ms: int,
) -> list[wire.Reason]:
    """A denial is a reason here, not a 403."""
    decision = decisions.decide(
        caller,
        CREATE,
        resource_id=NOT_YET_AN_ID,
        attributes=attributes.beside(
            attributes.of(access, request, share, now_ms=now_ms),
            attributes.held(caller, owner_id=caller.account_id),
        ),
    )
    # What the person has to confirm first would fit all the same.
    messages = [decision.message] if decision.effect == "deny" else []
    messages += catalogue.refusals(access, request, now_ms=now_ms)
    return [wire.Reason(filter=wire.Filter.POLICY, needs=message) for message in messages]


def over_quota(after: list[quota.Usage], charges: Mapping[str, int]) -> list[wire.Reason]:
    """The quotas that these charges would pass; ``after`` has them counted."""
    return [
        wire.Reason(
            filter=wire.Filter.QUOTA,
            needs=f"{units.text(row.resource, charges[row.resource])}{_OF_QUOTA[row.scope]}, of"
            f" which {units.number(row.resource, _left(row, charges[row.resource]))} are left of"
            f" {units.number(row.resource, row.max)}",
        )
        for row in after
        if row.used > row.max
    ]


def _left(row: quota.Usage, charge: int) -> int:
    return max(0, row.max - row.used + charge)
