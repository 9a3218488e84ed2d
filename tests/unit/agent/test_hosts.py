"""Hosts of many cards, made from one captured card."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bettercompute.agent import cpulists, hosts, inventory
from bettercompute.agent.inventory import HostInventory, MigMode
from bettercompute.agent.vendors import nvidia
from nodes import layouts

DATA = Path(__file__).parents[2] / "data" / "nvidia-smi"
H100 = nvidia.read_file(DATA / "linux-x86_64__nvidia-h100-80gb-hbm3__590.48.01.txt")
H200_MIG = nvidia.read_file(DATA / "linux-x86_64__nvidia-h200-mig__590.48.01.txt")
L40S = nvidia.read_file(DATA / "linux-x86_64__nvidia-l40s__595.80.txt")


def eight(card: HostInventory, node_key: str = "gpu-1") -> HostInventory:
    return hosts.multiply(card, gpus=8, node_key=node_key, vcpu=192, memory_gib=2048, numa_nodes=2)


def test_eight_cards_are_eight_identities_at_eight_places() -> None:
    host = eight(H100)

    assert len({gpu.uuid for gpu in host.gpus}) == 8
    assert len({gpu.pci_bus_id for gpu in host.gpus}) == 8
    assert [gpu.index for gpu in host.gpus] == list(range(8))
    assert {gpu.serial for gpu in host.gpus} == {None}
    assert {gpu.memory_mib for gpu in host.gpus} == {81559}
    assert HostInventory.from_wire(host.to_wire()) == host


def test_the_same_key_gives_the_same_host_and_another_key_shares_nothing() -> None:
    assert eight(H100) == eight(H100)

    inventory.refuse_duplicates({"one": eight(H100, "gpu-1"), "two": eight(H100, "gpu-2")})


def test_cpus_memory_and_cards_are_split_over_the_numa_nodes() -> None:
    host = eight(H100)

    assert [(each.cpulist, each.memory_gib) for each in host.numa] == [
        ("0-95", 1024),
        ("96-191", 1024),
    ]
    assert [gpu.numa_node for gpu in host.gpus] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert host.gpus[7].cpulist == "96-191"


def test_cards_of_an_nvlink_board_are_all_linked_and_pcie_cards_are_not() -> None:
    linked, loose = eight(H100), eight(L40S)

    assert {gpu.nvlink_group for gpu in linked.gpus} == {"nvlink-0"}
    for gpu in linked.gpus:
        assert set(gpu.nvlinks) == {peer.uuid for peer in linked.gpus} - {gpu.uuid}
    assert {(gpu.nvlink_group, gpu.nvlinks) for gpu in loose.gpus} == {(None, ())}


def test_one_card_alone_has_no_group() -> None:
    host = hosts.multiply(H100, gpus=1, node_key="solo", vcpu=8, memory_gib=64, numa_nodes=1)

    assert host.gpus[0].nvlink_group is None


def test_mig_instances_move_with_their_card() -> None:
    host = eight(H200_MIG)
    atoms = [each.atom_id for gpu in host.gpus for each in gpu.mig_instances]

    assert len(set(atoms)) == 8 * 4
    assert all(
        each.atom_id.startswith(f"{gpu.uuid}/m") for gpu in host.gpus for each in gpu.mig_instances
    )
    assert [len(each.compute_uuids) for each in host.gpus[0].mig_instances] == [1, 1, 1, 2]
    assert HostInventory.from_wire(host.to_wire()) == host


@pytest.mark.rule("N10")
def test_a_layout_cuts_the_chosen_cards_and_no_others() -> None:
    layout = layouts.pack("H100", {"1g.10gb": 7})

    host = hosts.with_mig_layout(eight(H100), layout, gpu_indexes=[6, 7])

    assert [len(gpu.mig_instances) for gpu in host.gpus] == [0] * 6 + [7, 7]
    assert [gpu.mig for gpu in host.gpus] == [MigMode.DISABLED] * 6 + [MigMode.ENABLED] * 2
    first = host.gpus[6].mig_instances[0]
    assert first.atom_id == f"{host.gpus[6].uuid}/m0-1g.10gb"
    assert first.memory_mib == 81559 // 8
    assert HostInventory.from_wire(host.to_wire()) == host


@pytest.mark.rule("N10")
def test_a_layout_that_overlaps_is_refused() -> None:
    overlapping = [
        layouts.Placement(0, "3g.40gb", 4),
        layouts.Placement(3, "1g.10gb", 1),
    ]

    with pytest.raises(layouts.LayoutImpossible):
        hosts.with_mig_layout(eight(H100), overlapping)
    with pytest.raises(layouts.UnknownCard):
        hosts.with_mig_layout(eight(L40S), layouts.pack("H100", {"1g.10gb": 1}))


@pytest.mark.parametrize(
    ("gpus", "vcpu", "numa_nodes", "message"),
    [(0, 8, 1, "gpus"), (257, 8, 1, "gpus"), (8, 8, 0, "numa_nodes"), (8, 4, 5, "numa_nodes")],
)
def test_impossible_numbers_are_refused(
    gpus: int, vcpu: int, numa_nodes: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        hosts.multiply(
            H100, gpus=gpus, node_key="x", vcpu=vcpu, memory_gib=8, numa_nodes=numa_nodes
        )


def test_a_host_without_a_card_cannot_be_multiplied() -> None:
    with pytest.raises(ValueError, match="no card"):
        eight(HostInventory())


@given(
    gpus=st.integers(1, 32),
    vcpu=st.integers(8, 512),
    memory_gib=st.integers(0, 4096),
    numa_nodes=st.integers(1, 8),
)
def test_nothing_is_lost_in_the_split(
    gpus: int, vcpu: int, memory_gib: int, numa_nodes: int
) -> None:
    host = hosts.multiply(
        H100, gpus=gpus, node_key="x", vcpu=vcpu, memory_gib=memory_gib, numa_nodes=numa_nodes
    )

    cpus = [cpu for each in host.numa for cpu in cpulists.read(each.cpulist)]
    assert sorted(cpus) == list(range(vcpu))
    assert sum(each.memory_gib for each in host.numa) == memory_gib
    assert len({gpu.pci_bus_id for gpu in host.gpus}) == gpus
    assert HostInventory.from_wire(host.to_wire()) == host
