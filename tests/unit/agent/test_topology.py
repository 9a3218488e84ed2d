"""`nvidia-smi topo -m`. The matrices are look-alikes written for these tests."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bettercompute.agent.vendors import topology


def matrix(links: list[list[str]], tails: list[str], *, nics: int = 0, tabs: bool = True) -> str:
    """A matrix as the driver prints it: tab-separated, with an empty cell before the last."""
    count = len(links)
    names = [f"GPU{i}" for i in range(count)] + [f"NIC{i}" for i in range(nics)]
    lines = ["\t" + "\t".join([*names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])]
    for index, row in enumerate(links):
        lines.append("\t".join([f"GPU{index}", *row, *["PIX"] * nics, tails[index]]))
    lines += ["\t".join([f"NIC{nic}", *["PIX"] * (count + nics)]) for nic in range(nics)]
    text = "\n".join([*lines, "", "Legend:", "", "  X    = Self", "  NV#  = NVLinks"])
    return text if tabs else text.replace("\t", "   ")


def mesh(count: int, link: str) -> list[list[str]]:
    return [[" X " if a == b else link for b in range(count)] for a in range(count)]


def groups(rows: dict[int, topology.Row]) -> dict[int, int]:
    return topology.nvlink_groups({index: row.nvlinks for index, row in rows.items()})


TWO_SOCKETS = ["0-31,64-95\t0\t\tN/A"] * 4 + ["32-63,96-127\t1\t\tN/A"] * 4


@pytest.mark.rule("N9")
@pytest.mark.parametrize("nics", [0, 9])
@pytest.mark.parametrize("tabs", [True, False])
def test_eight_cards_on_a_switch_are_one_group_on_two_numa_nodes(nics: int, tabs: bool) -> None:
    rows = topology.read(matrix(mesh(8, "NV18"), TWO_SOCKETS, nics=nics, tabs=tabs))

    assert set(groups(rows).values()) == {0}
    assert len(groups(rows)) == 8
    assert [rows[i].numa_node for i in range(8)] == [0] * 4 + [1] * 4
    assert rows[7].cpulist == "32-63,96-127"
    assert rows[3].nvlinks == frozenset(range(8)) - {3}


@pytest.mark.rule("N9")
def test_cards_on_pcie_only_have_no_group() -> None:
    links = mesh(4, "SYS")
    links[0][1] = links[1][0] = "PIX"

    rows = topology.read(matrix(links, TWO_SOCKETS))

    assert len(rows) == 4
    assert groups(rows) == {}


def test_bridged_pairs_are_two_groups() -> None:
    links = mesh(4, "NODE")
    links[0][1] = links[1][0] = links[2][3] = links[3][2] = "NV12"

    assert groups(topology.read(matrix(links, TWO_SOCKETS))) == {0: 0, 1: 0, 2: 2, 3: 2}


def test_a_cube_mesh_is_cut_into_its_full_quads() -> None:
    # Two quads, each card also linked to its twin in the other quad.
    links = mesh(8, "SYS")
    for a in range(8):
        for b in range(8):
            if a != b and (a // 4 == b // 4 or a % 4 == b % 4):
                links[a][b] = "NV1"

    assert groups(topology.read(matrix(links, TWO_SOCKETS))) == {
        **dict.fromkeys(range(4), 0),
        **dict.fromkeys(range(4, 8), 4),
    }


def test_a_link_that_one_end_does_not_show_is_no_link() -> None:
    links = mesh(2, "SYS")
    links[0][1] = "NV4"

    rows = topology.read(matrix(links, TWO_SOCKETS))

    assert groups(rows) == {}
    assert {row.nvlinks for row in rows.values()} == {frozenset()}


def test_a_flat_virtual_machine_has_one_numa_node() -> None:
    rows = topology.read(matrix(mesh(8, "NV18"), ["0-63\t0\t\tN/A"] * 8))

    assert {row.numa_node for row in rows.values()} == {0}


def test_an_old_driver_prints_no_gpu_numa_id() -> None:
    rows = topology.read("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPHB\t0-7\nGPU1\tPHB\t X \t0-7\n")

    assert [(row.cpulist, row.numa_node) for row in rows.values()] == [("0-7", None)] * 2


def test_colours_and_unknown_affinity_are_read() -> None:
    rows = topology.read("\t\x1b[4mGPU0\tCPU Affinity\tNUMA Affinity\x1b[0m\nGPU0\t X \tN/A\tN/A\n")

    assert rows == {0: topology.Row(0, frozenset(), "", None)}


@given(st.dictionaries(st.integers(0, 9), st.frozensets(st.integers(0, 9)), max_size=10))
def test_in_a_group_every_card_is_linked_to_every_other(links: dict[int, frozenset[int]]) -> None:
    found = topology.nvlink_groups(links)

    for a, group_a in found.items():
        for b, group_b in found.items():
            assert a == b or group_a != group_b or (b in links[a] and a in links[b])


@given(st.text(alphabet="GPU0123NVXSYS\t \n,-", max_size=400))
def test_any_text_reads(text: str) -> None:
    rows = topology.read(text)

    assert all(index not in row.nvlinks for index, row in rows.items())
