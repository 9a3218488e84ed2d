"""How what is free lies together: in whole nodes, or scattered over many (R15).

The figure follows FGD ("Beware of Fragmentation", USENIX ATC 2023): what of the free devices
typical requests cannot use. Here these ask for 1, 2, 4, 8, … devices of one kind on one node, up to
the most that a node has, each as likely as the other. A request of n cannot use what is left on a
node when as many as fit are placed there. 0: everything can be used by all of them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from bettercompute import sql
from bettercompute.iam.callers import Caller
from bettercompute.wire import pools as wire
from pools import queries
from pools.catalogue import PoolAccess
from pools.snapshot import CLASSES

FRAGMENTATION = sql.load(__package__, "fragmentation")

MILLI = 1_000


@dataclass(frozen=True, slots=True)
class Hosts:
    """So many nodes with so many usable devices of one kind, of which so many are free."""

    total: int
    free: int
    nodes: int = 1


@dataclass(frozen=True, slots=True)
class Block:
    """How many requests of so many devices on one node fit at once."""

    size: int
    requests: int


@dataclass(frozen=True, slots=True)
class Figures:
    """How the free devices of one kind lie together."""

    total: int
    free: int
    largest: int  #: the most that one node has free
    whole_nodes: int  #: nodes of which every device is free
    in_whole_nodes: int  #: and how many devices these have
    blocks: tuple[Block, ...]
    milli: int  #: thousandths of the free devices that a request cannot use, over all sizes


def of_pool(caller: Caller, pool_id: str) -> wire.Fragmentation:
    """The figures of each kind of device of a pool, now.

    Raises:
        errors.NotFound: there is no such pool, or it is not offered to the caller's tenant.
        errors.AccessDenied: a policy denies reading it.
    """
    return of_access(queries.readable_pool(caller, pool_id))


def of_access(access: PoolAccess) -> wire.Fragmentation:
    """The same of a pool that the caller was found to be allowed to read."""
    rows = FRAGMENTATION.all("hosts", pool_id=access.pool_id)
    kinds = [
        _kind(kind, measure([Hosts(*row[3:]) for row in hosts]))
        for kind, hosts in groupby(rows, key=lambda row: row[:3])
    ]
    return wire.Fragmentation(pool_id=access.pool_id, kinds=kinds)


def measure(hosts: Sequence[Hosts]) -> Figures:
    """The figures of one kind."""
    free = sum(each.free * each.nodes for each in hosts)
    whole = [each for each in hosts if 0 < each.free == each.total]
    sizes = list(_sizes(max((each.total for each in hosts), default=0)))
    lost = sum((each.free % size) * each.nodes for each in hosts for size in sizes)
    return Figures(
        total=sum(each.total * each.nodes for each in hosts),
        free=free,
        largest=max((each.free for each in hosts), default=0),
        whole_nodes=sum(each.nodes for each in whole),
        in_whole_nodes=sum(each.free * each.nodes for each in whole),
        blocks=tuple(
            Block(size, sum(each.free // size * each.nodes for each in hosts)) for size in sizes
        ),
        milli=MILLI * lost // (free * len(sizes)) if free else 0,
    )


def _sizes(most: int) -> Iterable[int]:
    """1, 2, 4, …, as far as a node goes."""
    size = 1
    while size <= most:
        yield size
        size *= 2


def _kind(kind: sql.Row, found: Figures) -> wire.FragmentationKind:
    mode, model, profile = kind
    return wire.FragmentationKind(
        device_class=CLASSES[mode],
        model=model,
        profile=profile or None,
        total=found.total,
        free=found.free,
        largest_block=found.largest,
        whole_nodes=found.whole_nodes,
        in_whole_nodes=found.in_whole_nodes,
        blocks=[wire.Block(size=each.size, requests=each.requests) for each in found.blocks],
        fragmentation_milli=found.milli,
    )
