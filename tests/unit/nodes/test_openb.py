"""The openb node list: 1,213 hosts of a production cluster."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bettercompute.agent import inventory
from bettercompute.agent.inventory import HostInventory
from nodes import openb

LIST = Path(__file__).parents[2] / "data" / "openb" / "openb_node_list_gpu_node.csv"
HEADER = "sn,cpu_milli,memory_mib,gpu,model\n"


@pytest.fixture(scope="module")
def fleet() -> list[openb.OpenbNode]:
    with LIST.open(encoding="utf-8") as lines:
        return openb.read(lines)


def test_the_whole_fleet_is_read(fleet: list[openb.OpenbNode]) -> None:
    assert len(fleet) == 1213
    assert sum(node.gpus for node in fleet) == 6212
    gpus: Counter[str] = Counter()
    for node in fleet:
        gpus[node.model] += node.gpus
    assert set(gpus) == {"A10", "G2", "G3", "P100", "T4", "V100M16", "V100M32"}
    assert (gpus["G2"], gpus["A10"]) == (549 * 8, 2)
    assert fleet[0] == openb.OpenbNode("openb-node-0000", 64, 256, 2, "P100")


@pytest.mark.rule("N9")
def test_no_two_hosts_of_the_fleet_share_a_device(fleet: list[openb.OpenbNode]) -> None:
    hosts = {node.name: openb.host(node) for node in fleet}

    inventory.refuse_duplicates(hosts)
    assert sum(len(host.gpus) for host in hosts.values()) == 6212
    assert all(HostInventory.from_wire(host.to_wire()) == host for host in hosts.values())


def test_a_host_says_what_the_list_says_and_no_more(fleet: list[openb.OpenbNode]) -> None:
    host = openb.host(next(node for node in fleet if node.model == "G2"))

    assert len({gpu.pci_bus_id for gpu in host.gpus}) == 8
    gpu = host.gpus[0]
    assert (gpu.model_class, gpu.memory_mib, gpu.nvlink_group) == ("G2", 0, None)
    assert gpu.unreported == {"memory": "not in the openb list"}
    assert host.numa[0].cpulist == f"0-{host.vcpu - 1}"


def test_the_same_line_makes_the_same_devices(fleet: list[openb.OpenbNode]) -> None:
    assert openb.host(fleet[5]) == openb.host(fleet[5])


def test_a_host_without_gpus_is_a_host() -> None:
    (node,) = openb.read([HEADER, "n0,32000,262144,0,\n"])

    assert openb.host(node).gpus == ()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "line 1: expected sn,cpu_milli,memory_mib,gpu,model"),
        (["name,cpu\n"], "line 1: expected"),
        ([HEADER, "a,1000,1024,1,T4\n", "b,1000,1024,1\n"], "line 3: expected 5 columns, found 4"),
        ([HEADER, "a,1000,1024,many,T4\n"], "line 2: gpu must be a whole number up to 64"),
        ([HEADER, "a,1000,1024,65,T4\n"], "line 2: gpu"),
        ([HEADER, "a,-1,1024,1,T4\n"], "line 2: cpu_milli must be a whole number, not '-1'"),
        ([HEADER, "a,1e3,1024,1,T4\n"], "line 2: cpu_milli"),
        ([HEADER, "a,1000,٣,1,T4\n"], "line 2: memory_mib"),
        ([HEADER, f"a,1000,{'9' * 5000},1,T4\n"], "line 2: memory_mib"),
        ([HEADER, "a,1000,1024,1,\n"], "line 2: 1 GPUs without a model"),
        ([HEADER, ",1000,1024,1,T4\n"], "line 2: sn"),
        ([HEADER, "a,1000,1024,1,T4\n", "\n", "a,1,1,1,T4\n"], "line 4: a is already on line 2"),
        ([HEADER, '"a,1000\n'], "line 2"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(lines: list[str], message: str) -> None:
    with pytest.raises(openb.OpenbUnreadable) as refusal:
        openb.read(lines)

    assert message in str(refusal.value)


@given(st.lists(st.text(alphabet='a1,"\n\r\x00T4 ', max_size=40), max_size=6))
def test_any_lines_read_or_are_refused(lines: list[str]) -> None:
    try:
        nodes = openb.read([HEADER, *lines])
    except openb.OpenbUnreadable:
        return

    assert all(openb.host(node).hostname == node.name for node in nodes)
