"""What the tenant's reservations had, and what its budgets leave (R39)."""

from collections.abc import Iterable

from bettercompute.client import accounts, calls, flows, paging
from bettercompute.client.flows import Api, Flow
from bettercompute.wire.usage import Budget, BudgetList, Grouping, Usage


def usage(
    api: Api,
    *,
    start_ms: int,
    end_ms: int,
    by: Iterable[Grouping] = (),
    pool_id: str | None = None,
    time_zone: str | None = None,
) -> Flow[Usage]:
    """The GPU-hours of a span of time, by any of day, pool and owner; days are the zone's."""
    tenant_id = yield from accounts.tenant_id_if_named(api)
    call = calls.get("/usage", Usage, tenantId=tenant_id, poolId=pool_id, timeZone=time_zone)
    asked = [*calls.between(start_ms, end_ms), *(("by", name) for name in by)]
    return (yield from flows.exchange(api, calls.with_query(call, asked)))


def budgets(api: Api) -> Flow[list[Budget]]:
    """The tenant's budgets, each with what is left of it in this month or in its window."""
    tenant_id = yield from accounts.tenant_id_if_named(api)
    return (yield from paging.whole(api, calls.get("/budgets", BudgetList, tenantId=tenant_id)))
