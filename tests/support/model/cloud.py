"""Everything that the model knows, and how things end in it."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping

from tests.support.model import entries
from tests.support.model.entries import Entry, Held
from tests.support.model.ground import Ground, Node, Pool

Key = tuple[str, str, str]  # tenant, owner and idempotency key


class Cloud:
    """A cloud on paper."""

    def __init__(
        self, pools: Iterable[Pool], nodes: Iterable[Node], limits: Mapping[str, dict[str, int]]
    ) -> None:
        self.pools = {pool.id: pool for pool in pools}
        self.ground = Ground(nodes)
        self.limits = {tenant: dict(most) for tenant, most in limits.items()}
        self.entries: dict[Key, Entry] = {}
        self.held: dict[str, Held] = {}
        self.seen: Counter[Hashable] = Counter()  #: what happened, so that nobody runs in vain

    def pool_of(self, entry: Entry) -> Pool:
        """Where it is to be placed."""
        return self.pools[entry.wish.pool]

    def close(self, entry: Entry, state: str, reason: str | None, now: int) -> None:
        """It ends: charges go back at once, devices where no node holds them for it.

        What never started keeps the window that it asked for.
        """
        if state == "released" and entry.start is not None and entry.start <= now:
            assert entry.end is not None
            entry.end = min(entry.end, now)
        if entry.state == "active":
            entry.releasing = {each for each in entry.live if each in self.held}
        entry.state, entry.reason, entry.charges = state, reason, {}
        self.let_go(entry, set(entry.live), now)

    def let_go(self, entry: Entry, allocations: Iterable[str], now: int) -> None:
        """These are not wanted any more; what a node was asked to hold it has to confirm."""
        for allocation in allocations:
            entry.live.discard(allocation)
            entry.entered.pop(allocation, None)
            entry.failed.discard(allocation)
            if allocation in self.held:
                self.held[allocation].left_at = now
            if allocation not in entry.releasing:
                self.ground.give_back(allocation, now)

    def serves(self, entry: Entry, allocation: str) -> bool:
        """Whether what it has could be given to it now."""
        claim = self.ground.claims[allocation]
        node = self.ground.nodes[claim.node]
        usable = node.usable(entry.wish.kind)
        return node.takes_work(books_cpus=claim.vcpu > 0) and claim.devices <= usable

    def blockers(self, allocation: str) -> list[Held]:
        """Earlier holders of its devices that have not let go."""
        claim = self.ground.claims[allocation]
        return [
            held
            for other, held in self.held.items()
            if other != allocation and held.node == claim.node and held.devices & claim.devices
        ]

    def moments(self, now: int) -> list[int]:
        """When something falls due, from now on."""
        found: list[int | None] = []
        for entry in self.entries.values():
            if entry.state == "draft":
                found.append(entry.created + entries.DRAFT_LIFETIME)
            elif entry.state == "pending":
                found += [entry.created + self.pool_of(entry).max_pending, entry.start]
            elif entry.state in entries.HOLDING:
                assert entry.start is not None
                assert entry.end is not None
                found += [entry.start, entry.start - entries.CHECK_BEFORE_START]
                found += [entry.end, entry.end - entries.ENDING_NOTICE, entry.lease_until]
                found.append(entry.bind_deadline if entry.entered else None)
        for held in self.held.values():
            if held.left_at is not None:
                found += [held.left_at + entries.UNBIND, held.left_at + entries.UNBIND_GIVEN_UP]
        return [each for each in found if each is not None and each > now]

    def overdue(self, now: int) -> set[str]:
        """Devices that a node should have let go of by now."""
        return {
            device
            for held in self.held.values()
            if held.left_at is not None and held.left_at + entries.UNBIND <= now
            for device in held.devices
        }
