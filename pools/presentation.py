"""Pools as pages show them: from what was read to frozen, printable parts. Pure: reads nothing."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from itertools import pairwise

from django.urls import reverse

from bettercompute.pages import axis, moments, parts, spans
from bettercompute.wire import pools as wire
from pools import quota
from pools.catalogue import NoShow, PoolAccess, Spot
from pools.models import Placer
from pools.quota import QuotaKey, Usage
from pools.supply import Supply

SPARK = timedelta(hours=48)
_RESOURCES = {
    quota.GPU_MILLI: ("GPUs", 1000),
    quota.VCPU: ("Host CPUs", 1),
    quota.MEMORY_GIB: ("Host memory GiB", 1),
}
_SCOPES: Mapping[quota.Scope, str] = {
    "tenant": "",
    "pool": " in this pool",
    "offer": " by this pool’s offer",
}
_PLACING = {Placer.INLINE: "at once", Placer.QUEUED: "from a queue, by priority, then age"}


@dataclass(frozen=True, slots=True)
class Bar:
    """A stretch of a small chart."""

    x: str
    width: str
    y: str
    height: str


@dataclass(frozen=True, slots=True)
class Row:
    """A pool in a list."""

    href: str
    reserve_href: str
    name: str
    owner: str
    region: str
    models: str
    nodes: str
    total: int
    free: int
    spark: tuple[Bar, ...]
    spark_label: str
    next_change: str


@dataclass(frozen=True, slots=True)
class Lying:
    """How the free devices of one kind lie together."""

    label: str
    free: str
    largest: str
    whole_nodes: str
    fits: str
    unusable: str


@dataclass(frozen=True, slots=True)
class ListPage:
    """All pools a person may book."""

    pools: tuple[Row, ...]


def row(
    supply: Supply,
    booked: Iterable[tuple[datetime, datetime]],
    *,
    now: datetime,
    zone: tzinfo,
) -> Row:
    """A pool's line; ``booked`` is one window a device and booking."""
    total = supply.total
    levels = _levels(total, booked, now, now + SPARK)
    lowest = min(free for _, free in levels)
    return Row(
        href=reverse("pool", args=[supply.id]),
        reserve_href=f"{reverse('reserve')}?pool={supply.id}",
        name=supply.access.name,
        owner="yours" if supply.access.owned else f"offered by {supply.owner}",
        region=supply.access.region,
        models=models(supply),
        nodes=_nodes(supply),
        total=total,
        free=levels[0][1],
        spark=tuple(_bars(total, levels, axis.Scale(now, now + SPARK))),
        spark_label=f"{levels[0][1]} free now, at least {lowest} over the next 48 hours",
        next_change=_next_change(levels, now, zone),
    )


def models(supply: Supply) -> str:
    """``32 × H100 + 8 × A100``."""
    return " + ".join(f"{kind.count} × {kind.label}" for kind in supply.kinds) or "no devices"


def _nodes(supply: Supply) -> str:
    if supply.nodes == supply.nodes_ready:
        return parts.count(supply.nodes, "node")
    return f"{supply.nodes_ready} of {parts.count(supply.nodes, 'node')} ready"


def _levels(
    total: int, booked: Iterable[tuple[datetime, datetime]], start: datetime, end: datetime
) -> list[tuple[datetime, int]]:
    """How many devices are free from each instant at which that changes."""
    changes: Counter[datetime] = Counter({start: 0})
    for booked_from, booked_until in booked:
        if booked_from < end and booked_until > start:
            changes[max(booked_from, start)] -= 1
            changes[booked_until] += 1
    levels, free = [], total
    for instant in sorted(changes):
        if instant < end and (changes[instant] or instant == start):
            free += changes[instant]
            levels.append((instant, max(0, free)))
    return levels


def _bars(total: int, levels: Sequence[tuple[datetime, int]], scale: axis.Scale) -> Iterable[Bar]:
    for (start, free), (end, _) in pairwise([*levels, (scale.end, 0)]):
        share = free / total * 100 if total else 0.0
        left = scale.clamped(start)
        yield Bar(
            x=axis.percent(left),
            width=axis.percent(scale.clamped(end) - left),
            y=axis.percent(100 - share),
            height=axis.percent(share),
        )


def _next_change(levels: Sequence[tuple[datetime, int]], now: datetime, zone: tzinfo) -> str:
    """The next block that frees, else the next that is taken."""
    changes = [(at, after - before) for (_, before), (at, after) in pairwise(levels)]
    freed = next((change for change in changes if change[1] > 0), None)
    chosen = freed or next(iter(changes), None)
    if chosen is None:
        return "no change planned"
    instant, number = chosen
    words = "freed" if number > 0 else "taken"
    return f"{abs(number)} {words} {moments.text(instant, now=now, zone=zone)}"


def quota_lines(
    usages: Iterable[Usage], *, added: Mapping[QuotaKey, int] | None = None
) -> tuple[parts.QuotaLine, ...]:
    """A tenant's quotas; ``added`` is the part of what is used that is only proposed."""
    lines = []
    for usage in usages:
        label, unit = _RESOURCES.get(usage.resource, (usage.resource, 1))
        lines.append(
            parts.quota(
                f"{label}{_SCOPES[usage.scope]}",
                used=usage.used,
                maximum=usage.max,
                unit=unit,
                added=(added or {}).get(usage.key, 0),
            )
        )
    return tuple(lines)


def quotas_in(pool_id: str, usages: Iterable[Usage]) -> list[Usage]:
    """Those of a tenant's quotas that limit what it holds in a pool."""
    return [usage for usage in usages if usage.pool_id in (None, pool_id)]


def lying(found: wire.Fragmentation) -> tuple[Lying, ...]:
    """How what is free lies together, a line for each kind of device."""
    return tuple(
        Lying(
            label=f"{kind.total:,} × {kind.model} {kind.profile or ''}".rstrip(),
            free=f"{kind.free:,}",
            largest=str(kind.largest_block),
            whole_nodes=f"{kind.whole_nodes:,}",
            fits=", ".join(f"{each.requests:,} × {each.size}" for each in kind.blocks),
            unusable=f"{kind.fragmentation_milli / 10:.1f} %",
        )
        for kind in found.kinds
    )


def limits(pool: PoolAccess) -> tuple[parts.Fact, ...]:
    """What the pool's policy allows, in words."""
    policy, share = pool.policy, pool.policy.per_gpu
    host = [f"{share.vcpu} CPUs"] if share.vcpu is not None else []
    host += [f"{share.memory_gib} GiB memory"] if share.memory_gib is not None else []
    facts = [
        ("Placing", _PLACING[pool.placer]),
        ("Highest priority", f"{policy.max_priority}; its owner’s admins may go beyond"),
        ("Longest reservation", spans.text(policy.max_duration) if policy.max_duration else "any"),
        ("How far ahead", spans.text(policy.max_ahead) if policy.max_ahead else "any"),
        ("Pending at most", spans.text(policy.max_pending)),
        ("Host share per GPU", ", ".join(host) or "the smallest of any host"),
        ("Spot gives way", _spot(policy.spot)),
        ("Not used", _no_show(policy.no_show)),
        ("Kubernetes", "yes, for its owner" if policy.kubernetes else "no"),
    ]
    return tuple(parts.Fact(label, value) for label, value in facts)


def _spot(terms: Spot) -> str:
    notice = f"with {spans.text(terms.notice_seconds * 1_000)} of notice"
    if not terms.min_run_seconds:
        return notice
    return f"{notice}, after at least {spans.text(terms.min_run_seconds * 1_000)}"


def _no_show(rule: NoShow | None) -> str:
    if rule is None:
        return "stays"
    after, warning = (spans.text(n * 60_000) for n in (rule.after_minutes, rule.warn_minutes))
    return f"warned {after} after it was handed over, ends {warning} later"
