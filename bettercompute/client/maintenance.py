"""Planned maintenance: announced and cancelled by operators and the pool's owner."""

from bettercompute.client import accounts, calls, flows, paging
from bettercompute.client.flows import Api, Flow
from bettercompute.wire import maintenance as wire


def announce(
    api: Api,
    *,
    start: int | str,
    reason: str,
    pool_id: str | None = None,
    node_id: str | None = None,
    end: int | str | None = None,
    duration: int | str | None = None,
    preview: bool = False,
) -> Flow[wire.MaintenanceOperation]:
    """Keep new bookings of a node, or of all of a pool, clear of it; says whom it meets.

    Repeating it changes nothing. With ``preview`` nothing changes at all.
    """
    if (pool_id is None) == (node_id is None):
        raise TypeError("name a pool or a node")
    kind, key = ("pools", pool_id) if node_id is None else ("nodes", node_id)
    assert key is not None
    body = wire.MaintenanceRequest(
        tenant_id=(yield from accounts.tenant_id_if_named(api)),
        start=start,
        end=end,
        duration=duration,
        reason=reason,
        preview=preview,
    )
    path = f"/{kind}/{calls.segment(key)}/maintenance"
    call = calls.post(path, body, wire.MaintenanceOperation, repeatable=True)
    return (yield from flows.exchange(api, call))


def of_pool(api: Api, pool_id: str) -> Flow[list[wire.Maintenance]]:
    """What is planned or under way in a pool, its nodes included, by start."""
    return (yield from _list(api, f"/pools/{calls.segment(pool_id)}/maintenance"))


def of_node(api: Api, node_id: str) -> Flow[list[wire.Maintenance]]:
    """The same of a node, its pool's included."""
    return (yield from _list(api, f"/nodes/{calls.segment(node_id)}/maintenance"))


def get(api: Api, maintenance_id: str) -> Flow[wire.MaintenanceDetails]:
    """One of them, and whom it meets."""
    tenant_id = yield from accounts.tenant_id_if_named(api)
    path = f"/maintenance/{calls.segment(maintenance_id)}"
    call = calls.get(path, wire.MaintenanceDetails, tenantId=tenant_id)
    return (yield from flows.exchange(api, call))


def cancel(
    api: Api, maintenance_id: str, *, preview: bool = False, version: int | None = None
) -> Flow[wire.MaintenanceOperation]:
    """Let its time be booked again. Repeating it changes nothing.

    With ``preview`` nothing changes at all; with ``version``, only if it is the current one.
    """
    tenant_id = yield from accounts.tenant_id_if_named(api)
    call = calls.post(
        f"/maintenance/{calls.segment(maintenance_id)}/cancel",
        wire.MaintenanceVerb(tenant_id=tenant_id, preview=preview),
        wire.MaintenanceOperation,
        repeatable=version is None,
        headers=calls.if_match(version),
    )
    return (yield from flows.exchange(api, call))


def _list(api: Api, path: str) -> Flow[list[wire.Maintenance]]:
    tenant_id = yield from accounts.tenant_id_if_named(api)
    return (yield from paging.whole(api, calls.get(path, wire.MaintenanceList, tenantId=tenant_id)))
