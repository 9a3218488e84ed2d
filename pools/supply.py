"""What a tenant may book, as its pages list it: pools, their devices, and when these are taken."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from bettercompute import sql
from bettercompute.iam.callers import Caller
from bettercompute.pages import timeline
from bettercompute.wire.reservations import DeviceClass
from pools import queries
from pools.catalogue import PoolAccess

SUPPLY = sql.load(__package__, "supply")

Window = tuple[datetime, datetime]
_CLASSES = {"gpu": DeviceClass.GPU, "mig": DeviceClass.MIG, "slot": DeviceClass.SLOT}


@dataclass(frozen=True, slots=True)
class Kind:
    """So many usable devices that are alike."""

    device_class: DeviceClass
    model: str
    profile: str
    count: int

    @property
    def label(self) -> str:
        """``H100`` or ``A100 1g.10gb``."""
        return f"{self.model} {self.profile}".rstrip()


@dataclass(frozen=True, slots=True)
class Supply:
    """A pool that the caller may book, and what it has."""

    access: PoolAccess
    owner: str
    nodes: int
    nodes_ready: int
    kinds: tuple[Kind, ...]

    @property
    def id(self) -> str:
        """The pool's id."""
        return self.access.pool_id

    @property
    def total(self) -> int:
        """Usable devices."""
        return sum(kind.count for kind in self.kinds)


def bookable(caller: Caller) -> list[Supply]:
    """Every pool the caller's tenant may book, its own first."""
    return _supplies(queries.readable(caller))


def access(caller: Caller, pool_id: str) -> Supply:
    """One of them.

    Raises:
        errors.NotFound: there is no such pool, or it is closed to the caller's tenant.
        errors.AccessDenied: a policy denies reading it.
    """
    (found,) = _supplies([queries.readable_pool(caller, pool_id)])
    return found


def _supplies(pools: Sequence[PoolAccess]) -> list[Supply]:
    pool_ids = [pool.pool_id for pool in pools]
    kinds: dict[str, list[Kind]] = defaultdict(list)
    for pool_id, kind, model, profile, count in SUPPLY.all("kinds", pool_ids=pool_ids):
        kinds[pool_id].append(Kind(_CLASSES[kind], model, profile, count))
    counted = {row[0]: row[1:] for row in SUPPLY.all("nodes", pool_ids=pool_ids)}
    supplies = []
    for pool in pools:
        owner, nodes, ready = counted[pool.pool_id]
        supplies.append(Supply(pool, owner, nodes, ready, tuple(kinds[pool.pool_id])))
    return supplies


def booked(
    supplies: Sequence[Supply], *, start: datetime, end: datetime
) -> dict[str, list[Window]]:
    """When usable devices of these pools are taken: one window a device and booking."""
    windows: dict[str, list[Window]] = {supply.id: [] for supply in supplies}
    for pool_id, *window in SUPPLY.all("booked", pool_ids=list(windows), start=start, end=end):
        windows[pool_id].append((window[0], window[1]))
    return windows


def devices(pool_id: str) -> list[timeline.Device]:
    """Every bookable device of a pool, node by node."""
    return [timeline.Device(*row) for row in SUPPLY.all("devices", pool_id=pool_id)]
