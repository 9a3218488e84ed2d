"""Reads of pools for the API: what there is, what is free, what is booked when."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from bettercompute import clock, errors, sql
from bettercompute.iam import decisions
from bettercompute.iam.callers import Caller
from bettercompute.iam.decisions import Attributes
from bettercompute.web import pagination
from bettercompute.wire import pools as wire
from bettercompute.wire.base import MILLISECONDS_MAX, PageQuery
from nodes import maintenance
from pools import catalogue
from pools.catalogue import PoolAccess
from pools.snapshot import CLASSES

QUERIES = sql.load(__package__, "queries")

READ = "compute:pools:read"
DAY_MS = 86_400_000
NAME_CHARS_ORDERED = 100  # a cursor is bounded, a name is not
TIMELINE_DEFAULT_MS = 7 * DAY_MS
TIMELINE_MAX_MS = 92 * DAY_MS


@dataclass(frozen=True, slots=True)
class _Window:
    start_ms: int
    end_ms: int


def page(caller: Caller, wanted: PageQuery) -> wire.PoolList:
    """Pools that the caller's tenant may book and the caller may read, its own first, by name."""
    found = pagination.page("pools", readable(caller), wanted, by=_order, kinds=(int, str, str))
    return wire.PoolList(items=_pools(found.items), next_cursor=found.next_cursor)


def _order(access: PoolAccess) -> tuple[int, str, str]:
    return int(not access.owned), access.name[:NAME_CHARS_ORDERED], access.pool_id


def readable(caller: Caller) -> list[PoolAccess]:
    """Every pool the caller's tenant may book and the caller may read."""
    return [access for access in catalogue.pools_for(caller) if _may_read(caller, access)]


def get(caller: Caller, pool_id: str) -> wire.Pool:
    """One of them.

    Raises:
        errors.NotFound: there is no such pool, or it is not offered to the caller's tenant.
        errors.AccessDenied: a policy denies reading it.
    """
    (pool,) = _pools([readable_pool(caller, pool_id)])
    return pool


def timeline(
    caller: Caller, pool_id: str, *, start_ms: int | None, end_ms: int | None
) -> wire.Timeline:
    """A pool's devices and bookings over a window; foreign bookings say only when (R38)."""
    access = readable_pool(caller, pool_id)
    window = _window(start_ms, end_ms)
    start, end = clock.from_ms(window.start_ms), clock.from_ms(window.end_ms)
    rows = QUERIES.all(
        "timeline", pool_id=access.pool_id, tenant_id=caller.tenant_id, start=start, end=end
    )
    works = maintenance.standing(access.pool_id, start=start, end=end)
    devices = [_device(list(bookings)) for _, bookings in groupby(rows, key=lambda row: row[0])]
    return wire.Timeline.model_validate(
        {
            "poolId": access.pool_id,
            "from": window.start_ms,
            "to": window.end_ms,
            "capacity": _capacity(devices, works, window),
            "devices": devices,
            "maintenance": [_work(each) for each in works],
        }
    )


def readable_pool(caller: Caller, pool_id: str) -> PoolAccess:
    access = catalogue.access_pool(caller, pool_id)
    decisions.decide(caller, READ, resource_id=pool_id, attributes=_attributes(access)).require()
    return access


def _may_read(caller: Caller, access: PoolAccess) -> bool:
    attributes = _attributes(access)
    return decisions.decide(caller, READ, resource_id=access.pool_id, attributes=attributes).allowed


def _attributes(access: PoolAccess) -> Attributes:
    return Attributes(pool=access.pool_id, region=access.region, tenant=access.owner_id)


def _pools(found: Sequence[PoolAccess]) -> list[wire.Pool]:
    pool_ids = [access.pool_id for access in found]
    nodes: dict[str, int] = dict(QUERIES.all("node_counts", pool_ids=pool_ids))
    rows: dict[str, list[sql.Row]] = defaultdict(list)
    for row in QUERIES.all("summary", pool_ids=pool_ids):
        rows[row[0]].append(row)
    return [_pool(access, nodes.get(access.pool_id, 0), rows[access.pool_id]) for access in found]


def _pool(access: PoolAccess, nodes: int, rows: Sequence[sql.Row]) -> wire.Pool:
    devices = [
        wire.PoolDevices.model_validate(
            {
                "class": CLASSES[mode],
                "model": model,
                "profile": profile or None,
                "memoryGiB": -(-memory_mib // 1024),
                "total": total,
                "free": free,
            }
        )
        for _, mode, model, profile, memory_mib, total, free, _ in rows
    ]
    ends = [row[-1] for row in rows if row[-1] is not None]
    return wire.Pool(
        id=access.pool_id,
        name=access.name,
        region=access.region,
        tenant_id=access.owner_id,
        owned=access.owned,
        placer=access.placer,
        nodes=nodes,
        devices=devices,
        total=sum(kind.total for kind in devices),
        free=sum(kind.free for kind in devices),
        next_free_at=min(ends, default=None),
        limits=wire.PoolLimits(
            max_ahead_ms=access.policy.max_ahead,
            max_duration_ms=access.policy.max_duration,
            kubernetes=access.policy.kubernetes and access.owned,
        ),
        version=access.version,
    )


def _window(start_ms: int | None, end_ms: int | None) -> _Window:
    start = clock.now_ms() if start_ms is None else start_ms
    end = min(start + TIMELINE_DEFAULT_MS, MILLISECONDS_MAX) if end_ms is None else end_ms
    if end <= start:
        raise errors.InvalidInput.at("to", "must be after from")
    if end - start > TIMELINE_MAX_MS:
        raise errors.InvalidInput.at("to", "must be at most 92 days after from")
    return _Window(start, end)


def _device(rows: Sequence[sql.Row]) -> wire.TimelineDevice:
    device_id, node_id, node, mode, model, profile, usable = rows[0][:7]
    return wire.TimelineDevice.model_validate(
        {
            "id": device_id,
            "nodeId": node_id,
            "node": node,
            "class": CLASSES[mode],
            "model": model,
            "profile": profile or None,
            "usable": usable,
            "bookings": [
                wire.TimelineBooking(start=start, end=end, reservation_id=owner)
                for *_, start, end, owner in rows
                if start is not None
            ],
        }
    )


def _work(window: maintenance.Window) -> wire.TimelineMaintenance:
    return wire.TimelineMaintenance(
        id=window.id,
        node_id=window.node_id,
        node=window.node_name,
        start=clock.to_ms(window.start),
        end=clock.to_ms(window.end),
        reason=window.reason,
    )


def _capacity(
    devices: Sequence[wire.TimelineDevice], works: Sequence[maintenance.Window], window: _Window
) -> list[wire.CapacityStep]:
    """How many usable devices are free from which moment on: neither booked nor worked on."""
    usable = [device for device in devices if device.usable]
    changes = {window.start_ms: 0}
    for start, end in (span for device in usable for span in _taken(device, works)):
        begins = max(start, window.start_ms)
        changes[begins] = changes.get(begins, 0) - 1
        if end < window.end_ms:
            changes[end] = changes.get(end, 0) + 1
    free = len(usable)
    steps: list[wire.CapacityStep] = []
    for at in sorted(changes):
        free += changes[at]
        if not steps or steps[-1].free != free:
            steps.append(wire.CapacityStep(at=at, free=free))
    return steps


def _taken(
    device: wire.TimelineDevice, works: Sequence[maintenance.Window]
) -> Iterator[tuple[int, int]]:
    """When a device is booked or worked on; what touches or overlaps is one span."""
    spans = [(booking.start, booking.end) for booking in device.bookings]
    spans += [
        (clock.to_ms(work.start), clock.to_ms(work.end))
        for work in works
        if work.node_id in {None, device.node_id}
    ]
    spans.sort()
    while spans:
        start, end = spans.pop(0)
        while spans and spans[0][0] <= end:
            end = max(end, spans.pop(0)[1])
        yield start, end
