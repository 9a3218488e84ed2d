"""Pools and quotas as people read them at a terminal. Pure."""

from collections.abc import Sequence

from bettercompute import units
from bettercompute.cli import fragmentation
from bettercompute.cli.output import Cell, Shown, Table, facts
from bettercompute.cli.views import Reader
from bettercompute.pages import spans
from bettercompute.wire.pools import CapacityStep, Fragmentation, Pool, PoolDevices, Quota, Timeline

BAR_WIDTH = 20


def several(found: Sequence[Pool], quotas_: Sequence[Quota], reader: Reader) -> Shown:
    """What may be booked, what is free of it, and what the quota leaves."""
    rows = [
        (
            pool.name,
            pool.id,
            pool.region,
            str(pool.nodes),
            ", ".join(map(_kind, pool.devices)),
            Cell(str(pool.free), "green" if pool.free else "yellow"),
            "now" if pool.free else reader.moment(pool.next_free_at),
        )
        for pool in found
    ]
    columns = ("NAME", "ID", "REGION", "NODES", "DEVICES", "FREE", "NEXT FREE")
    human: list[str | Table] = [Table(columns, rows, "No pool is open to this tenant.")]
    if quotas_:
        human += ["", _quotas(quotas_, reader)]
    return Shown(
        document={"items": found, "quotas": quotas_},
        ids=[pool.id for pool in found],
        human=human,
    )


def one(pool: Pool, lying: Fragmentation, reader: Reader) -> Shown:
    """One with its limits, and how what is free of it lies together."""
    limits = pool.limits
    human: list[str | Table] = [f"{pool.id}  {pool.name}"]
    human += facts(
        [
            ("Region", pool.region),
            ("Yours", "yes" if pool.owned else "no, it is offered to you"),
            ("Nodes", str(pool.nodes)),
            ("Devices", ", ".join(map(_kind, pool.devices)) or "none"),
            ("Free now", f"{pool.free} of {pool.total}"),
            ("Next free", "" if pool.free else reader.moment(pool.next_free_at)),
            ("Placer", pool.placer),
            ("At most", _span(limits.max_duration_ms)),
            ("Ahead by", _span(limits.max_ahead_ms)),
            ("Kubernetes", "yes" if limits.kubernetes else ""),
        ]
    )
    human += ["", *fragmentation.shown(lying).human]
    document = {**pool.model_dump(mode="json", by_alias=True), "fragmentation": lying}
    return Shown(document=document, ids=[pool.id], human=human)


def timeline(found: Timeline, pool: Pool, reader: Reader) -> Shown:
    """From when on how many devices are free."""
    usable = sum(device.usable for device in found.devices)
    rows = [
        (
            reader.moment(max(step.at, found.start)),
            Cell(str(step.free), "green" if step.free else "yellow"),
            _bar(step, usable),
        )
        for step in found.capacity
    ]
    until = reader.moment(found.end)
    human: list[str | Table] = [
        f"{pool.name}: {usable} devices take work.",
        Table(("FROM", "FREE", ""), rows, "No node takes work."),
        f"This looks until {until}.",
    ]
    return Shown(document=found, ids=[found.pool_id], human=human)


def quotas(found: Sequence[Quota], reader: Reader) -> Shown:
    """What is held of each resource, and may be."""
    ids = [each.resource for each in found]
    return Shown(document={"items": found}, ids=ids, human=[_quotas(found, reader)])


def _quotas(found: Sequence[Quota], reader: Reader) -> Table:
    rows = [
        (
            units.named(each.resource),
            _scope(each, reader),
            units.number(each.resource, each.used),
            units.number(each.resource, each.max),
        )
        for each in found
    ]
    return Table(("QUOTA", "OF", "USED", "MAX"), rows, "This tenant is granted nothing.")


def _scope(quota: Quota, reader: Reader) -> str:
    if quota.pool_id is None:
        return "all pools"
    pool = reader.pool(quota.pool_id)
    return f"pool {pool}" if quota.pool_offer_id is None else f"offer of pool {pool}"


def _kind(devices: PoolDevices) -> str:
    return " ".join(filter(None, [f"{devices.total} × {devices.model}", devices.profile]))


def _span(milliseconds: int | None) -> str:
    return "" if milliseconds is None else spans.text(milliseconds)


def _bar(step: CapacityStep, usable: int) -> str:
    """The part that is free, drawn."""
    return "█" * round(BAR_WIDTH * step.free / usable) if usable else ""
