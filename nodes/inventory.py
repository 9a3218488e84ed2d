"""What a node reported becomes its devices and resources (N9, R30).

A device's identity is its UUID, so a card that another node has already is refused, and with it the
whole inventory. What a host stops reporting stays as an unhealthy row, since bookings may name it.
An inventory that changes nothing takes no lock; one that does locks the node's devices, so it and
a placer never pass each other unseen.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, replace

from django.db import transaction
from pydantic import ValidationError

from bettercompute import errors, sql
from bettercompute.agent.inventory import HostInventory
from bettercompute.coordination.runner import Done, Outcome
from nodes import conditions, notices, projection, resources
from nodes.conditions import Condition, Why
from nodes.projection import Changes, DeviceRow

INVENTORY = sql.load(__package__, "inventory")

HOST_RESERVE_VCPU_DEFAULT = 2
PAGES_2MI_PER_GIB = 512
MESSAGE_CHARACTERS_MAX = 500


class DuplicateIdentity(errors.Conflict):
    """A card with this UUID belongs to another node already."""


def apply(
    node_id: str, host: HostInventory, *, host_reserve_vcpu: int = HOST_RESERVE_VCPU_DEFAULT
) -> None:
    """Make the node's devices and resources what its host reported.

    Raises:
        DuplicateIdentity: another node has one of the cards; nothing changes.
    """
    apply_all({node_id: host}, host_reserve_vcpu=host_reserve_vcpu)


@transaction.atomic
def apply_all(
    hosts: Mapping[str, HostInventory],
    *,
    host_reserve_vcpu: int = HOST_RESERVE_VCPU_DEFAULT,
    registered: Iterable[str] = (),
) -> None:
    """``apply`` for many nodes, in as many statements as for one. All or nothing.

    ``registered`` are nodes that this transaction added: their event comes first.
    """
    reported = {node_id: projection.rows_of(node_id, host) for node_id, host in hosts.items()}
    changes = _compare(reported, booked_gpus=frozenset())
    if any(each.rows for each in changes.values()):
        INVENTORY.all("lock_devices", node_ids=list(hosts))
        booked = INVENTORY.all("booked_gpus", node_ids=list(hosts))
        changes = _compare(reported, booked_gpus=frozenset(gpu for (gpu,) in booked))
        _write([row for each in changes.values() for row in each.rows])
    amounts = resources.set_allocatable_of_many(
        {node_id: allocatable(host, host_reserve_vcpu) for node_id, host in hosts.items()}
    )
    _wake(changes, amounts)
    notices.publish_of_nodes("node.registered", registered)
    _publish(changes, amounts)
    _tell_overcommitted(list(hosts), amounts.overcommitted)


def allocatable(host: HostInventory, host_reserve_vcpu: int) -> dict[str, int]:
    """What of the host may be booked: its CPUs less the reserve, memory that is not huge pages."""
    huge_gib = host.hugepages_1gi + -(-host.hugepages_2mi // PAGES_2MI_PER_GIB)
    return {
        resources.VCPU: max(host.vcpu - host_reserve_vcpu, 0),
        resources.MEMORY_GIB: max(host.memory_gib - huge_gib, 0),
        resources.HUGEPAGES_1GI: host.hugepages_1gi,
        resources.HUGEPAGES_2MI: host.hugepages_2mi,
    }


def reconcile(key: str, fence: Callable[[], AbstractContextManager[None]]) -> Outcome:
    """Apply the node's last reported inventory, if it is not applied yet."""
    with fence():
        row = INVENTORY.one("unapplied", node_id=key)
        if row is not None:
            seq, body = row
            error = _apply_or_refuse(key, body)
            INVENTORY.run("mark_applied", node_id=key, seq=seq, error=error)
    return Done()


def host_reserve_vcpu(node_id: str) -> int:
    """How many CPUs the pool's policy keeps for the host itself."""
    row = INVENTORY.one("host_reserve_vcpu", node_id=node_id)
    return HOST_RESERVE_VCPU_DEFAULT if row is None or row[0] is None else int(row[0])


def record(hosts: Mapping[str, HostInventory]) -> None:
    """Remember these as applied first inventories, where no agent has reported one yet."""
    rows = [{"node_id": node_id, "body": host.to_wire()} for node_id, host in hosts.items()]
    INVENTORY.run("record", rows=json.dumps(rows))


def unapplied() -> list[str]:
    """The nodes whose last inventory is not applied yet: for the resync (C27)."""
    return [node_id for (node_id,) in INVENTORY.all("any_unapplied")]


def _apply_or_refuse(node_id: str, body: str) -> str:
    """Apply under a savepoint; answers why it was refused, or nothing."""
    try:
        host = HostInventory.from_wire(json.loads(body))
        apply(node_id, host, host_reserve_vcpu=host_reserve_vcpu(node_id))
    except DuplicateIdentity as refused:
        why = Why(reason="DuplicateIdentity", message=refused.message)
    except ValidationError as refused:
        why = Why(reason="Unreadable", message=str(refused)[:MESSAGE_CHARACTERS_MAX])
    else:
        conditions.clear([Condition.INVENTORY_REFUSED], [node_id])
        return ""
    conditions.put(Condition.INVENTORY_REFUSED, {node_id: why})
    return why.message


def _compare(
    reported: Mapping[str, list[DeviceRow]], *, booked_gpus: frozenset[str]
) -> dict[str, Changes]:
    stored = _stored(reported)
    return {
        node_id: projection.compare(stored.get(node_id, []), rows, booked_gpus=booked_gpus)
        for node_id, rows in reported.items()
    }


def _stored(reported: Mapping[str, list[DeviceRow]]) -> dict[str, list[DeviceRow]]:
    """The stored rows by node. Raises: DuplicateIdentity."""
    claims = {row.id: node_id for node_id, rows in reported.items() for row in rows}
    found = INVENTORY.all("stored", node_ids=list(reported), device_ids=list(claims))
    by_node: dict[str, list[DeviceRow]] = {}
    for values in found:
        row = replace(DeviceRow(*values), attributes=json.loads(values[-1]))
        if claims.get(row.id, row.node_id) != row.node_id:
            raise DuplicateIdentity(
                f"{row.id} belongs to node {row.node_id} already; a card's UUID is its identity,"
                " so it cannot be in two machines.",
                deviceId=row.id,
                nodeId=row.node_id,
            )
        by_node.setdefault(row.node_id, []).append(row)
    return by_node


def _write(rows: list[DeviceRow]) -> None:
    written = INVENTORY.run("write_devices", rows=json.dumps([asdict(row) for row in rows]))
    if written < len(rows):
        raise DuplicateIdentity(
            "Another node reported one of these cards at the same moment.",
            deviceIds=[row.id for row in rows][:10],
        )


def _wake(changes: Mapping[str, Changes], amounts: resources.AllocatableChange) -> None:
    notices.wake(
        changed={node_id for node_id, each in changes.items() if each.rows} | amounts.changed,
        gained={node_id for node_id, each in changes.items() if each.gained} | amounts.changed,
    )


def _publish(changes: Mapping[str, Changes], amounts: resources.AllocatableChange) -> None:
    changed = {node_id for node_id, each in changes.items() if each.rows} | amounts.changed
    notices.publish_of_nodes("node.inventory-changed", changed)
    for node_id, each in changes.items():
        notices.publish_of_devices("device.unhealthy", node_id, each.failed)
        notices.publish_of_devices("device.healthy", node_id, dict.fromkeys(each.recovered, ""))


def _tell_overcommitted(node_ids: list[str], found: Iterable[resources.Overcommitted]) -> None:
    messages: dict[str, list[str]] = {}
    for each in found:
        text = f"{each.resource}: {each.allocated} booked, {each.admits} there"
        messages.setdefault(each.node_id, []).append(text)
    why = {node_id: Why(message="; ".join(texts)) for node_id, texts in messages.items()}
    conditions.clear([Condition.OVERCOMMITTED], [each for each in node_ids if each not in why])
    fresh = conditions.put(Condition.OVERCOMMITTED, why)
    notices.publish_of_nodes("node.overcommitted", fresh)
