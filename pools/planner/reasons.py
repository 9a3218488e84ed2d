"""Why a request does not fit: counted per filter, the nearest to fitting first (R20)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bettercompute import units
from bettercompute.units import Unit
from bettercompute.wire import reasons as wire
from bettercompute.wire.reasons import Filter

SAMPLES_MAX = 3
NAMED_MAX = 4

# A node is rejected by the first filter in this order that it fails.
ORDER = (
    Filter.CLASS,
    Filter.MODEL,
    Filter.LABELS,
    Filter.CAPABILITY,
    Filter.TAINT,
    Filter.STATE,
    Filter.TOPOLOGY,
    Filter.BUSY,
    Filter.RESOURCES,
    Filter.GANG,
)


@dataclass(frozen=True, slots=True)
class Reason:
    """So many nodes fail this filter, for instance these; ``until_ms`` is when that may end."""

    filter: Filter
    needs: str
    nodes: int = 0
    samples: tuple[str, ...] = ()
    until_ms: int | None = None
    most: str | None = None  #: what there is even with nothing booked, where that is too little


def answered(reason: Reason) -> wire.Reason:
    """The reason as a preview and a pending reservation answer it."""
    return wire.Reason(
        filter=reason.filter,
        needs=reason.needs,
        nodes=reason.nodes,
        samples=list(reason.samples),
        until=reason.until_ms,
        most=reason.most,
    )


@dataclass(frozen=True, slots=True)
class Rejection:
    """What is wrong with one node, or with all nodes of one shape."""

    filter: Filter
    needs: str
    until_ms: int | None = None
    #: what there is of each that is too little, even with nothing booked; None: it may be enough
    most: Mapping[Unit, int] | None = None


def tally(rejections: Iterable[tuple[Rejection, list[str]]]) -> tuple[Reason, ...]:
    """Reasons by filter and need, with how many nodes and some of their names."""
    names: dict[tuple[Filter, str], list[str]] = {}
    ends: dict[tuple[Filter, str], int] = {}
    most: dict[tuple[Filter, str], dict[Unit, int]] = {}
    for rejection, nodes in rejections:
        key = rejection.filter, rejection.needs
        names.setdefault(key, []).extend(nodes)
        if rejection.most is not None:
            known = most.setdefault(key, {})
            known |= {name: max(n, known.get(name, 0)) for name, n in rejection.most.items()}
        if rejection.until_ms is not None:
            ends[key] = min(rejection.until_ms, ends.get(key, rejection.until_ms))
    found = [
        Reason(
            filter=key[0],
            needs=key[1],
            nodes=len(nodes),
            samples=tuple(sorted(nodes)[:SAMPLES_MAX]),
            until_ms=ends.get(key),
            most=_told(most[key], key[0], nodes) if key in most else None,
        )
        for key, nodes in names.items()
    ]
    return tuple(sorted(found, key=_rank))


def _told(most: Mapping[Unit, int], failed: Filter, nodes: Sequence[str]) -> str:
    """``8 GPUs on a node``, or in the pool."""
    amounts = sorted(most.items(), key=lambda each: (-each[1], each[0].one))[:NAMED_MAX]
    told = ", ".join(units.counted(unit, amount) for unit, amount in amounts) or "nothing"
    return f"{told} in the pool" if wire.of_pool(failed, len(nodes)) else f"{told} on a node"


def _rank(reason: Reason) -> tuple[int, int, str]:
    """What passed the most filters is nearest to fitting; then what most nodes fail."""
    return -ORDER.index(reason.filter), -reason.nodes, reason.needs
