"""A pool's own page: what it has, and whose its time is over a window."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from bettercompute.pages import axis, moments, parts, rendering, timeline, visitors
from bettercompute.pages.visitors import Visitor
from nodes import maintenance
from nodes.maintenance import Window
from pools import console as pools
from pools import fragmentation, presentation, quota, supply
from reservations.pages import calendar

_RANGES = (
    ("1d", "Day", timedelta(days=1)),
    ("2d", "2 days", timedelta(days=2)),
    ("7d", "Week", timedelta(days=7)),
    ("28d", "4 weeks", timedelta(days=28)),
)
_DEFAULT = "2d"


@dataclass(frozen=True, slots=True)
class Work:
    """Maintenance that is planned, as the page lists it."""

    where: str
    when: str
    reason: str
    under_way: bool


@dataclass(frozen=True, slots=True)
class Page:
    """All of a pool's page."""

    pool: presentation.Row
    tiles: tuple[parts.Tile, ...]
    ranges: tuple[parts.Link, ...]
    timeline: timeline.Timeline
    lying: tuple[presentation.Lying, ...]
    works: tuple[Work, ...]
    limits: tuple[parts.Fact, ...]
    quota: tuple[parts.QuotaLine, ...]


@require_safe
@visitors.required
def pool(request: HttpRequest, visitor: Visitor, pool_id: str) -> HttpResponse:
    """The page of one pool that the visitor may book."""
    found = supply.access(visitor.caller, pool_id)
    row = pools.row(visitor, found)
    chosen = _chosen(request.GET.get("range", ""))
    page = Page(
        pool=row,
        tiles=_tiles(row, found),
        ranges=_links(pool_id, chosen),
        timeline=_timeline(visitor, pool_id, _scale(chosen, visitor.now)),
        lying=presentation.lying(fragmentation.of_access(found.access)),
        works=tuple(_work(visitor, each) for each in maintenance.standing(pool_id)),
        limits=presentation.limits(found.access),
        quota=presentation.quota_lines(
            presentation.quotas_in(pool_id, quota.usage(visitor.caller.tenant_id))
        ),
    )
    return rendering.render(request, "pools/detail.html", page, section="pools")


def _chosen(asked: str) -> str:
    return asked if asked in {key for key, _, _ in _RANGES} else _DEFAULT


def _scale(chosen: str, now: datetime) -> axis.Scale:
    """The window from a little before now, so that what is under way shows."""
    length = next(length for key, _, length in _RANGES if key == chosen)
    start = now - length / 12
    return axis.Scale(start, start + length)


def _links(pool_id: str, chosen: str) -> tuple[parts.Link, ...]:
    address = reverse("pool", args=[pool_id])
    return tuple(
        parts.Link(f"{address}?range={key}", label, key == chosen) for key, label, _ in _RANGES
    )


def _timeline(visitor: Visitor, pool_id: str, scale: axis.Scale) -> timeline.Timeline:
    devices: Sequence[timeline.Device] = supply.devices(pool_id)
    bookings = calendar.occupied(visitor.caller, pool_id, devices, start=scale.start, end=scale.end)
    return timeline.build(devices, bookings, scale=scale, now=visitor.now, zone=visitor.zone)


def _work(visitor: Visitor, window: Window) -> Work:
    return Work(
        where=window.node_name or "The whole pool",
        when=moments.window(window.start, window.end, now=visitor.now, zone=visitor.zone),
        reason=window.reason,
        under_way=window.start <= visitor.now,
    )


def _tiles(row: presentation.Row, found: supply.Supply) -> tuple[parts.Tile, ...]:
    return (
        parts.Tile("Free now", f"{row.free:,}", f"of {row.total:,}"),
        parts.Tile("Nodes ready", f"{found.nodes_ready:,}", f"of {found.nodes:,}"),
        parts.Tile("Devices", row.models),
        parts.Tile("Next change", row.next_change),
    )
