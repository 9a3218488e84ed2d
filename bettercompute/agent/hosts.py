"""Whole hosts made from captured cards, for seeds, the simulator and tests.

No capture of an eight-GPU host exists with a licence to ship, so a host of many cards is one real
card, multiplied. Everything identifying is derived from the node's key (version 5 UUIDs), so the
same key always gives the same host and two keys never share a device.
"""

from collections.abc import Sequence

from bettercompute.agent import cpulists, inventory
from bettercompute.agent.inventory import Gpu, HostInventory, MigInstance, MigMode, NumaNode
from bettercompute.agent.vendors import nvidia_models
from nodes import layouts


def multiply(
    host: HostInventory,
    *,
    gpus: int,
    node_key: str,
    vcpu: int,
    memory_gib: int,
    numa_nodes: int = 2,
) -> HostInventory:
    """A host of ``gpus`` cards like the first card of ``host``.

    The card with index ``i`` has the UUID derived from ``node_key`` and ``i``; MIG instances keep
    their places under it. Cards, CPUs and memory are split evenly over the NUMA nodes, in order.
    Cards of a kind that sits on an NVLink board (SXM) are all linked to each other; others have no
    links. Serial numbers are dropped: the real card has the only one.
    Raises: ValueError, where ``host`` has no card or a number is impossible.
    """
    if not host.gpus:
        raise ValueError("there is no card to multiply in this host")
    if not 1 <= gpus <= inventory.GPUS_PER_HOST_MAX:
        raise ValueError(f"gpus must be 1 to {inventory.GPUS_PER_HOST_MAX}, not {gpus}")
    if not 1 <= numa_nodes <= max(vcpu, 1):
        raise ValueError(f"numa_nodes must be 1 to {vcpu}, not {numa_nodes}")

    numa = _numa(vcpu=vcpu, memory_gib=memory_gib, nodes=numa_nodes)
    uuids = [inventory.derived_id(f"node {node_key}, GPU {index}") for index in range(gpus)]
    card = host.gpus[0]
    return host.model_copy(
        update={
            "hostname": node_key,
            "boot_id": inventory.derived_id(f"node {node_key}, first boot", prefix="boot"),
            "vcpu": vcpu,
            "memory_gib": memory_gib,
            "numa": numa,
            "isolated_cpulist": "",
            "gpus": tuple(
                _copy(card, uuids=uuids, index=index, numa=numa[index * numa_nodes // gpus])
                for index in range(gpus)
            ),
            "warnings": (),
        }
    )


def with_mig_layout(
    host: HostInventory,
    layout: Sequence[layouts.Placement],
    *,
    gpu_indexes: Sequence[int] | None = None,
) -> HostInventory:
    """The same host with these cards, by default all, in MIG mode and cut into ``layout``.

    An instance's memory is its share of the card's slices; a real driver keeps a little back.
    Raises: UnknownCard, LayoutImpossible, where a card cannot be cut so.
    """
    chosen = {gpu.index for gpu in host.gpus} if gpu_indexes is None else set(gpu_indexes)
    return host.model_copy(
        update={
            "gpus": tuple(_cut(gpu, layout) if gpu.index in chosen else gpu for gpu in host.gpus)
        }
    )


def _numa(*, vcpu: int, memory_gib: int, nodes: int) -> tuple[NumaNode, ...]:
    """Even shares; the first nodes take what does not divide."""
    edges = [-(-vcpu * node // nodes) for node in range(nodes + 1)]
    memory = [-(-memory_gib * node // nodes) for node in range(nodes + 1)]
    return tuple(
        NumaNode(
            id=node,
            cpulist=cpulists.write(range(edges[node], edges[node + 1])),
            memory_gib=memory[node + 1] - memory[node],
        )
        for node in range(nodes)
    )


def _copy(card: Gpu, *, uuids: Sequence[str], index: int, numa: NumaNode) -> Gpu:
    uuid = uuids[index]
    linked = len(uuids) > 1 and nvlink_board(card)
    attributes = {name: card.attributes[name] for name in card.attributes if "uuid" not in name}
    return card.model_copy(
        update={
            "uuid": uuid,
            "index": index,
            "minor": index,
            "serial": None,
            # One PCI domain a NUMA node, one bus a card: distinct for any number of cards.
            "pci_bus_id": f"{numa.id:08X}:{index % 256:02X}:00.0",
            "numa_node": numa.id,
            "cpulist": numa.cpulist,
            "nvlink_group": "nvlink-0" if linked else None,
            "nvlinks": tuple(peer for peer in uuids if peer != uuid) if linked else (),
            "mig_instances": tuple(_moved(each, uuid) for each in card.mig_instances),
            "attributes": attributes | {"uuid-derived-from": "node key and index"},
        }
    )


def nvlink_board(card: Gpu) -> bool:
    """Whether cards like this one come on a board where each is linked to each."""
    return nvidia_models.has_nvlink_fabric(card.model)


def _moved(instance: MigInstance, gpu_uuid: str) -> MigInstance:
    """The same place on another card."""
    atom_id = inventory.mig_atom_id(gpu_uuid, start=instance.start, profile=instance.profile)
    compute = tuple(
        inventory.derived_id(f"{atom_id} {position}", prefix="MIG")
        for position in range(max(len(instance.compute_uuids), 1))
    )
    return instance.model_copy(
        update={"atom_id": atom_id, "uuid": compute[0], "compute_uuids": compute}
    )


def _cut(gpu: Gpu, layout: Sequence[layouts.Placement]) -> Gpu:
    card = layouts.card(gpu.model_class, memory_mib=gpu.memory_mib)
    pairs = [(each.profile, each.start) for each in layout]
    if not layouts.is_legal(card.name, pairs):
        raise layouts.LayoutImpossible(f"A {card.name} cannot be cut into {pairs}")
    instances = tuple(
        _moved(
            MigInstance(
                atom_id="",
                profile=each.profile,
                start=each.start,
                size=each.size,
                memory_mib=gpu.memory_mib * each.size // card.grid_units,
            ),
            gpu.uuid,
        )
        for each in sorted(layout)
    )
    attributes = gpu.attributes | {"mig-placement": "listed"}
    return gpu.model_copy(
        update={"mig": MigMode.ENABLED, "mig_instances": instances, "attributes": attributes}
    )
