"""Pools that the tenant may book, how they fill, and its quotas."""

from bettercompute.client import accounts, calls, failures, flows, paging
from bettercompute.client.flows import Api, Flow
from bettercompute.wire.pools import Fragmentation, Pool, PoolList, Quota, QuotaList, Timeline


def list_(api: Api) -> Flow[list[Pool]]:
    """Every pool the tenant may book, its own first."""
    tenant_id = yield from accounts.tenant_id_if_named(api)
    return (yield from paging.whole(api, calls.get("/pools", PoolList, tenantId=tenant_id)))


def get(api: Api, pool_id: str) -> Flow[Pool]:
    """One pool, with what is free of it now."""
    tenant_id = yield from accounts.tenant_id_if_named(api)
    call = calls.get(f"/pools/{calls.segment(pool_id)}", Pool, tenantId=tenant_id)
    return (yield from flows.exchange(api, call))


def find(api: Api, name_or_id: str) -> Flow[Pool]:
    """The pool with this name or id.

    Raises:
        failures.NotFound: there is none; says which there are.
        failures.Conflict: several have this name; says their ids.
    """
    pools = yield from list_(api)
    fitting = [pool for pool in pools if name_or_id in (pool.id, pool.name)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        ids = ", ".join(pool.id for pool in fitting)
        raise failures.Conflict(f"Several pools are named {name_or_id}; say which by id: {ids}.")
    names = ", ".join(pool.name for pool in pools) or "none"
    raise failures.NotFound(f"There is no pool {name_or_id}. You may book: {names}.")


def timeline(
    api: Api, pool_id: str, *, start_ms: int | None = None, end_ms: int | None = None
) -> Flow[Timeline]:
    """A pool's bookings and what is free over a window, by default the week from now."""
    tenant_id = yield from accounts.tenant_id_if_named(api)
    call = calls.get(f"/pools/{calls.segment(pool_id)}/timeline", Timeline, tenantId=tenant_id)
    return (yield from flows.exchange(api, calls.with_query(call, calls.between(start_ms, end_ms))))


def fragmentation(api: Api, pool_id: str) -> Flow[Fragmentation]:
    """How much of a pool is free in one piece now, by kind of device."""
    tenant_id = yield from accounts.tenant_id_if_named(api)
    path = f"/pools/{calls.segment(pool_id)}/fragmentation"
    return (yield from flows.exchange(api, calls.get(path, Fragmentation, tenantId=tenant_id)))


def quotas(api: Api) -> Flow[list[Quota]]:
    """What the tenant holds of each resource, and may hold."""
    tenant_id = yield from accounts.tenant_id_if_named(api)
    return (yield from paging.whole(api, calls.get("/quotas", QuotaList, tenantId=tenant_id)))
