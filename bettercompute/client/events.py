"""What happened: listed, one by its id, the catalogue of types, and a stream."""

from collections.abc import Iterable

from bettercompute.client import accounts, calls, flows, paging
from bettercompute.client.flows import Api, Flow, Pages
from bettercompute.client.following import Following
from bettercompute.wire.events import Event, EventCatalog, EventList, EventType


def pages(
    api: Api,
    *,
    types: Iterable[str] = (),
    subject: str | None = None,
    start_ms: int | None = None,
    end_ms: int | None = None,
    platform: bool = False,
    page_size: int = 50,
) -> Pages[Event]:
    """What happened, the newest first.

    ``types`` are names or prefixes such as ``reservation.*``, ``subject`` is what it is about
    (``reservation/rsv_…``); with ``platform`` an operator reads the events of all tenants.
    """
    asked = [*_filters(types, subject, platform), ("limit", str(page_size))]
    asked += calls.between(start_ms, end_ms)
    call = calls.with_query(calls.get("/events", EventList), asked)
    return paging.pages(api, call, platform=platform)


def newest(
    api: Api, *, types: Iterable[str] = (), subject: str | None = None, limit: int = 50
) -> Flow[EventList]:
    """The newest events, and the position from which a stream goes on behind them."""
    asked = [*_filters(types, subject, False), ("limit", str(limit))]
    tenant_id = yield from accounts.tenant_id_if_named(api)
    call = calls.get("/events", EventList, tenantId=tenant_id)
    return (yield from flows.exchange(api, calls.with_query(call, asked)))


def get(api: Api, event_id: str, *, platform: bool = False) -> Flow[Event]:
    """One event."""
    tenant_id = None if platform else (yield from accounts.tenant_id_if_named(api))
    call = calls.get(f"/events/{calls.segment(event_id)}", Event, tenantId=tenant_id)
    return (yield from flows.exchange(api, calls.with_query(call, _scope(platform))))


def catalog(api: Api) -> Flow[list[EventType]]:
    """Every type of event, with the JSON Schema of its events and an example."""
    return (yield from flows.exchange(api, calls.get("/events/catalog", EventCatalog))).items


def event_type(api: Api, name: str) -> Flow[EventType]:
    """One type of event."""
    path = f"/events/catalog/{calls.segment(name)}"
    return (yield from flows.exchange(api, calls.get(path, EventType)))


def stream(
    api: Api,
    *,
    after: str | None = None,
    types: Iterable[str] = (),
    subject: str | None = None,
    platform: bool = False,
) -> Flow[Following]:
    """What happens, as it happens, without an end: behind ``after``, or from now on.

    A stream that breaks is opened again where it was. Keep the ``position`` of what you have dealt
    with to go on from there in another process; something without an ``event`` says that events
    before it may be missing. Filters are those of ``list``.
    """
    tenant_id = None if platform else (yield from accounts.tenant_id_if_named(api))
    query = _filters(types, subject, platform)
    if tenant_id is not None:
        query.append(("tenantId", tenant_id))
    return Following(api, tuple(query), after)


def _filters(types: Iterable[str], subject: str | None, platform: bool) -> list[tuple[str, str]]:
    named = [("types", name) for name in types]
    return named + ([("subject", subject)] if subject is not None else []) + _scope(platform)


def _scope(platform: bool) -> list[tuple[str, str]]:
    return [("scope", "platform")] if platform else []
