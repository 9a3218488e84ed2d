"""Whether lines of devices fit on one node, by counting (case 9): which cells give how many.

A line without a narrower topology may take from every cell it matches, so several lines on a node
are a flow from lines to cells, and a later line may push an earlier one aside (no greedy mistake).
``same-numa`` and ``nvlink-all`` first choose one group of cells; those choices are searched, with
identical lines kept in order and within a budget of steps shared by one planning.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bettercompute.wire.reservations import DeviceClass, Topology
from pools.planner import terms
from pools.planner.request import Line
from pools.planner.snapshot import Cell

SEARCH_STEPS_MAX = 20_000

Counts = tuple[Mapping[int, int], ...]  # for each line: how many of which cell


@dataclass(slots=True)
class Budget:
    """Steps left to the search for groups; spent, what is not found yet counts as not fitting."""

    steps: int = SEARCH_STEPS_MAX

    def spend(self) -> bool:
        """Take one step; answers whether there was one left."""
        self.steps -= 1
        return self.steps >= 0


@dataclass(frozen=True, slots=True)
class Group:
    """Cells that may serve one line together, and the most they may give it."""

    cells: tuple[int, ...]
    limit: int


def matches(line: Line, cell: Cell, *, with_selector: bool = True) -> bool:
    """Whether the cell's atoms are what the line asks for."""
    return (
        cell.device_class is line.device_class
        and cell.profile == line.profile
        and (
            not with_selector
            or all(terms.device_holds(term, cell) for term in line.selector if term.of_device)
        )
    )


def allot(
    lines: Sequence[Line],
    cells: Sequence[Cell],
    supply: Sequence[int],
    *,
    worths: Sequence[int],
    cap: int | None,
    budget: Budget,
) -> Counts | None:
    """How many atoms each line takes of each cell, or None if the lines do not all fit.

    ``supply`` is what each cell has to give; ``cap`` bounds the sum of the counts times ``worths``
    (host resources). Lines with a range take as many as fit.
    """
    if cap is not None and cap < sum(
        line.minimum * worth for line, worth in zip(lines, worths, strict=True)
    ):
        return None
    options = [_groups(line, cells, supply) for line in lines]
    if not all(options):
        return None
    most = sum(line.maximum for line in lines)
    best: Counts | None = None
    best_total = -1
    for choice in _choices(lines, options, supply, budget):
        counts = _grown(lines, choice, supply, worths, cap)
        total = sum(sum(taken.values()) for taken in counts)
        if total > best_total:
            best, best_total = counts, total
        if best_total == most or all(line.minimum == line.maximum for line in lines):
            break
    return best


def _groups(line: Line, cells: Sequence[Cell], supply: Sequence[int]) -> list[Group]:
    """The groups of cells that could serve the line, the best fit first."""
    usable = [
        index for index, cell in enumerate(cells) if supply[index] > 0 and matches(line, cell)
    ]
    groups = [
        group
        for group in _by_topology(line, cells, usable)
        if _amount(group, supply) >= line.minimum
    ]
    groups.sort(key=lambda group: _preference(line, group, cells, supply))
    return groups


def _by_topology(line: Line, cells: Sequence[Cell], usable: Sequence[int]) -> Iterator[Group]:
    ordered = tuple(sorted(usable, key=lambda index: cells[index].total))
    if line.topology in {Topology.ANY, Topology.SAME_NODE}:
        yield Group(ordered, line.maximum)
        return
    linked: dict[int, list[int]] = {}
    for index in ordered:
        key = _link(line, cells[index])
        if key is None:  # unknown or unlinked: one device alone is still near itself
            yield Group((index,), 1)
        else:
            linked.setdefault(key, []).append(index)
    for members in linked.values():
        yield Group(tuple(members), line.maximum)


def _link(line: Line, cell: Cell) -> int | None:
    if line.topology is Topology.SAME_NUMA:
        return cell.numa_node
    return cell.nvlink_group if cell.device_class is DeviceClass.GPU else None


def _amount(group: Group, supply: Sequence[int]) -> int:
    return min(group.limit, sum(supply[index] for index in group.cells))


def _preference(
    line: Line, group: Group, cells: Sequence[Cell], supply: Sequence[int]
) -> tuple[int, bool, int]:
    """More devices first; then groups that are broken already; then the least left over."""
    free = sum(supply[index] for index in group.cells)
    whole = free == sum(cells[index].total for index in group.cells)
    taken = min(_amount(group, supply), line.maximum)
    return -taken, whole and taken < free, free - taken


def _choices(
    lines: Sequence[Line],
    options: Sequence[Sequence[Group]],
    supply: Sequence[int],
    budget: Budget,
) -> Iterator[tuple[Group, ...]]:
    """Every way to give each line one of its groups in which all minimums fit."""
    # Lines with the fewest choices first; identical lines side by side, so that their choices can
    # be kept in order instead of trying each permutation.
    order = sorted(range(len(lines)), key=lambda i: (len(options[i]), -lines[i].minimum, i))
    chosen: list[int] = []

    def search() -> Iterator[tuple[Group, ...]]:
        depth = len(chosen)
        if depth == len(order):
            picked = dict(zip(order, chosen, strict=True))
            yield tuple(options[i][picked[i]] for i in range(len(lines)))
            return
        line = lines[order[depth]]
        twin = depth > 0 and lines[order[depth - 1]] == line
        for pick in range(chosen[-1] if twin else 0, len(options[order[depth]])):
            if not budget.spend():
                return
            chosen.append(pick)
            flow = Flow(supply)
            if all(
                flow.add(options[order[i]][chosen[i]], lines[order[i]].minimum)
                for i in range(depth + 1)
            ):
                yield from search()
            chosen.pop()

    yield from search()


def _grown(
    lines: Sequence[Line],
    choice: Sequence[Group],
    supply: Sequence[int],
    worths: Sequence[int],
    cap: int | None,
) -> Counts:
    """The minimums, then each line in turn as far as its maximum, the cells and the cap allow."""
    flow = Flow(supply)
    for line, group in zip(lines, choice, strict=True):
        added = flow.add(group, line.minimum)
        assert added, "the choice was checked"
    room = None
    if cap is not None:
        room = cap - sum(line.minimum * worth for line, worth in zip(lines, worths, strict=True))
    for index, (line, group, worth) in enumerate(zip(lines, choice, worths, strict=True)):
        more = min(line.maximum, group.limit) - line.minimum
        if room is not None:
            more = min(more, room // worth)
        pushed = flow.push(index, more)
        if room is not None:
            room -= pushed * worth
    return tuple(flow.taken)


class Flow:
    """Which line holds how many of which cell; more is pushed along augmenting paths.

    Cells may share a *bin* that gives no more than its room, whatever they have: a host whose CPUs
    last for fewer devices than it has.
    """

    def __init__(
        self,
        supply: Sequence[int],
        *,
        bins: Mapping[int, int] | None = None,
        room: Sequence[int] = (),
    ) -> None:
        self.left = list(supply)
        self.taken: list[dict[int, int]] = []
        self._groups: list[Group] = []
        self._bins = dict(bins or {})  # cell → its bin
        self._room = list(room)
        self._cells_of: dict[int, list[int]] = {}
        for cell, shared in self._bins.items():
            self._cells_of.setdefault(shared, []).append(cell)

    def add(self, group: Group, amount: int) -> bool:
        """One more line; answers whether it got all of ``amount``."""
        self._groups.append(group)
        self.taken.append({})
        return self.push(len(self.taken) - 1, amount) == amount

    def push(self, line: int, amount: int) -> int:
        """Give a line up to ``amount`` more, moving others aside; answers how many it got."""
        pushed = 0
        while pushed < amount:
            step = self._augment(line, amount - pushed)
            if step == 0:
                break
            pushed += step
        return pushed

    def _augment(self, source: int, amount: int) -> int:
        reached_from: dict[int, int] = {}  # cell → the line that would take of it
        # line → the cell of which it would give up, and that for which it does
        gives_up: dict[int, tuple[int, int] | None] = {source: None}
        queue = deque([source])
        while queue:
            line = queue.popleft()
            for cell in self._ordered(line, amount):
                if cell in reached_from:
                    continue
                reached_from[cell] = line
                if self._free(cell) > 0:
                    return self._apply(cell, reached_from, gives_up, amount)
                for blocked in self._in_the_way(cell):
                    for other, held in enumerate(self.taken):
                        if other not in gives_up and held.get(blocked, 0) > 0:
                            gives_up[other] = blocked, cell
                            queue.append(other)
        return 0

    def _free(self, cell: int) -> int:
        shared = self._bins.get(cell)
        return self.left[cell] if shared is None else min(self.left[cell], self._room[shared])

    def _in_the_way(self, cell: int) -> list[int]:
        """The cells of which somebody would have to give up, for one of this to be free."""
        return [cell] if self.left[cell] == 0 else self._cells_of[self._bins[cell]]

    def _ordered(self, line: int, amount: int) -> list[int]:
        """Cells for a line: the smallest that gives all of it, else the smallest first."""
        free = {cell: self._free(cell) for cell in self._groups[line].cells}
        enough = sorted((some, cell) for cell, some in free.items() if some >= amount)
        rest = sorted((some, cell) for cell, some in free.items() if 0 < some < amount)
        full = [cell for cell, some in free.items() if some == 0]
        return [cell for _, cell in enough[:1] + rest + enough[1:]] + full

    def _apply(
        self,
        last: int,
        reached_from: dict[int, int],
        gives_up: dict[int, tuple[int, int] | None],
        amount: int,
    ) -> int:
        path: list[tuple[int, int, int | None]] = []  # line, cell it takes of, cell it gives up
        step, cell = min(amount, self._free(last)), last
        while True:
            line = reached_from[cell]
            given = gives_up[line]
            path.append((line, cell, None if given is None else given[0]))
            if given is None:
                break
            blocked, cell = given
            step = min(step, self.taken[line][blocked])
            if blocked != cell:  # of its own bin: then the other has to have some itself
                step = min(step, self.left[cell])
        if last in self._bins:
            self._room[self._bins[last]] -= step
        for line, takes, gives in path:
            self.left[takes] -= step
            self.taken[line][takes] = self.taken[line].get(takes, 0) + step
            if gives is not None:
                self.left[gives] += step
                self.taken[line][gives] -= step
        return step
