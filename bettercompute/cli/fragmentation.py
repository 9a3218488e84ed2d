"""How what is free of a pool lies together, for people and programs."""

from bettercompute.cli.output import Cell, Shown, Table
from bettercompute.wire.pools import Fragmentation, FragmentationKind

COLUMNS = ("DEVICES", "FREE", "ON ONE NODE", "WHOLE NODES", "FITS AT ONCE", "UNUSABLE")


def shown(found: Fragmentation) -> Shown:
    """One line for each kind of device."""
    table = Table(COLUMNS, [_row(kind) for kind in found.kinds], "No node takes work now.")
    return Shown(document=found, ids=[found.pool_id], human=[table])


def _row(kind: FragmentationKind) -> tuple[str | Cell, ...]:
    fits = ", ".join(f"{each.requests} × {each.size}" for each in kind.blocks if each.requests)
    return (
        f"{kind.total} × {kind.model} {kind.profile or ''}".rstrip(),
        Cell(str(kind.free), "green" if kind.free else "yellow"),
        str(kind.largest_block),
        f"{kind.whole_nodes} ({kind.in_whole_nodes} devices)",
        fits,
        f"{kind.fragmentation_milli / 10:.1f} %",
    )
