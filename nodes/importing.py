"""Machines imported into a pool from files, as if each had registered and reported.

What is recorded is what an agent of that machine would report first, so a simulated agent can take
it from there. Importing the same again changes nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db import transaction

from bettercompute import errors, ids, sql
from bettercompute.agent.inventory import HostInventory
from nodes import inventory, registration
from nodes.models import Node

IMPORTING = sql.load(__package__, "importing")

CAPABILITY_PREFIX = "bc.dev/cap."


class PoolUnknown(errors.NotFound):
    """There is no such pool; the message lists those there are."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import did."""

    created: int
    known: int
    devices: int


@transaction.atomic(durable=True)
def import_hosts(
    pool_id: str,
    hosts: Mapping[str, HostInventory],
    *,
    capabilities: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
) -> Imported:
    """Register these hosts by name where the pool lacks them, and apply what they consist of.

    ``capabilities`` are what their agents would say they can do; a new node starts with them, and
    with ``labels``.

    Raises:
        inventory.DuplicateIdentity: another node has one of the cards; nothing is imported.
    """
    known = dict(
        Node.objects.filter(pool_id=pool_id, name__in=list(hosts)).values_list("name", "pk")
    )
    system_labels = {f"{CAPABILITY_PREFIX}{each}": "true" for each in capabilities}
    created = registration.add(
        [
            Node(
                id=ids.new("node"),
                pool_id=pool_id,
                name=name,
                labels=dict(labels or {}),
                system_labels=system_labels,
            )
            for name in hosts
            if name not in known
        ]
    )
    node_ids = known | {node.name: node.pk for node in created}
    by_node = {node_ids[name]: host for name, host in hosts.items()}
    if by_node:
        reserve = inventory.host_reserve_vcpu(next(iter(by_node)))
        inventory.record(by_node)
        registered = [node.pk for node in created]
        inventory.apply_all(by_node, host_reserve_vcpu=reserve, registered=registered)
    return Imported(
        created=len(created),
        known=len(known),
        devices=sum(len(host.gpus) for host in hosts.values()),
    )


def find_pool(tenant: str, pool: str) -> str:
    """The id of a tenant's pool, by its name or id.

    Raises:
        PoolUnknown: the message says which pools there are.
    """
    rows = IMPORTING.all("pools")
    for pool_id, name, slug in rows:
        if slug == tenant and pool in {pool_id, name}:
            return str(pool_id)
    there = ", ".join(f"{slug}/{name}" for _, name, slug in rows) or "none yet"
    raise PoolUnknown(
        f"Tenant {tenant} has no pool {pool}. Pools there are (tenant/name): {there}."
    )
