"""How free devices lie together, and what each way of packing makes of it (R15)."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from nodes import openb
from pools import fragmentation
from pools.fragmentation import Block, Hosts
from pools.planner import packing, topology
from pools.planner import plan as planner
from pools.planner.plan import Plan
from pools.planner.request import Demand
from pools.planner.snapshot import Cell, Node, Snapshot
from tests.support.snapshots import cell, demand, line, node

pytestmark = pytest.mark.rule("R15")

OPENB = Path(__file__).parents[2] / "data" / "openb" / "openb_node_list_gpu_node.csv"


def test_whole_nodes_can_be_used_by_all_sizes():
    found = fragmentation.measure([Hosts(total=8, free=8, nodes=2), Hosts(total=8, free=0)])
    assert (found.total, found.free, found.largest) == (24, 16, 8)
    assert (found.whole_nodes, found.in_whole_nodes) == (2, 16)
    assert found.blocks == (Block(1, 16), Block(2, 8), Block(4, 4), Block(8, 2))
    assert found.milli == 0


def test_the_same_number_scattered_is_of_no_use_to_the_large():
    found = fragmentation.measure([Hosts(total=8, free=1, nodes=16)])
    assert (found.free, found.largest, found.whole_nodes) == (16, 1, 0)
    assert found.blocks == (Block(1, 16), Block(2, 0), Block(4, 0), Block(8, 0))
    assert found.milli == 750, "three of four sizes can use nothing of it"


def test_what_is_left_beside_the_blocks_counts():
    # 7 free: sizes 1, 2, 4 and 8 leave 0, 1, 3 and 7 of them.
    assert fragmentation.measure([Hosts(total=8, free=7)]).milli == 1_000 * 11 // 28


@pytest.mark.parametrize("hosts", [[], [Hosts(total=4, free=0, nodes=3)]])
def test_where_nothing_is_free_nothing_is_lost(hosts):
    found = fragmentation.measure(hosts)
    assert (found.free, found.largest, found.milli) == (0, 0, 0)


# --- what packing makes of it --------------------------------------------------------------------

Choose = Callable[[Demand, Snapshot, random.Random], Plan | None]


def best_fit(wanted: Demand, pool: Snapshot, rng: random.Random) -> Plan | None:
    return planner.attempt(wanted, pool, rng=rng)


def best_of_a_sample(wanted: Demand, pool: Snapshot, rng: random.Random) -> Plan | None:
    """As `snapshot.find` shows the planner a pool: some nodes, else all."""
    part = Snapshot(tuple(rng.sample(pool.nodes, 32)))
    return best_fit(wanted, part, rng) or best_fit(wanted, pool, rng)


def at_random(wanted: Demand, pool: Snapshot, rng: random.Random) -> Plan | None:
    return _first(wanted, rng.sample(pool.nodes, len(pool.nodes)), rng)


def first_fit(wanted: Demand, pool: Snapshot, rng: random.Random) -> Plan | None:
    return _first(wanted, pool.nodes, rng)


def _first(wanted: Demand, nodes: Sequence[Node], rng: random.Random) -> Plan | None:
    lines = tuple(options[0] for options in wanted.lines)
    for each in nodes:
        found = packing.fit(each, lines, wanted, topology.Budget())
        if found is not None:
            return Plan((packing.part(each, found.counts, found.worth, wanted, rng),), lines)
    return None


@dataclass
class Cluster:
    """Nodes from which plans take and to which they give back."""

    nodes: dict[str, Node]

    def take(self, plan: Plan) -> None:
        for part in plan.parts:
            self._change(part.node_id, lambda free, ids=part.device_ids: free - set(ids))

    def give(self, plan: Plan) -> None:
        for part in plan.parts:
            self._change(part.node_id, lambda free, ids=part.device_ids: free | set(ids))

    def _change(self, node_id: str, change: Callable[[set[str]], set[str]]) -> None:
        old = self.nodes[node_id]
        (only,) = old.cells
        free = tuple(sorted(change(set(only.free))))
        taken = only.total - len(free)
        cells: tuple[Cell, ...] = (replace(only, free=free, busy_until=(1,) * taken),)
        self.nodes[node_id] = replace(old, cells=cells)

    @property
    def snapshot(self) -> Snapshot:
        return Snapshot(tuple(self.nodes.values()))

    def figures(self) -> fragmentation.Figures:
        cells = [cell for each in self.nodes.values() for cell in each.cells]
        return fragmentation.measure([Hosts(each.total, len(each.free)) for each in cells])


def openb_hosts(*, one_in: int) -> Cluster:
    """Some of the hosts of a production cluster, with as many cards as they have."""
    with OPENB.open(encoding="utf-8") as lines:
        hosts = openb.read(lines)[::one_in]
    return Cluster({f"id-{host.name}": node(cell(host.gpus), name=host.name) for host in hosts})


def typical(choose: Choose, *, seed: int = 7, steps: int = 500) -> int:
    """The figure on average, while reservations come and go on three quarters of the cluster."""
    rng = random.Random(seed)
    cluster, live, figures = openb_hosts(one_in=16), [], []
    kept_free = cluster.figures().total // 4
    for step in range(steps):
        wanted = demand(line(rng.choice([1, 1, 1, 1, 2, 2, 4, 8])))
        if cluster.figures().free < kept_free:
            cluster.give(live.pop(rng.randrange(len(live))))
            continue
        found = choose(wanted, cluster.snapshot, rng)
        if found is not None:
            cluster.take(found)
            live.append(found)
        if step > steps // 2:
            figures.append(cluster.figures().milli)
    return sum(figures) // len(figures)


def test_best_fit_keeps_more_in_one_piece_than_first_fit_and_chance():
    best, sampled = typical(best_fit), typical(best_of_a_sample)
    first, chance = typical(first_fit), typical(at_random)
    assert best < first < chance
    assert sampled < first, "the best of a third of the nodes is better than the first of all"
