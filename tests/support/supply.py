"""Makers of supply: tenants, pools and nodes with devices, through the use cases that make them.

A node made here is a real card, multiplied, and applied like any reported inventory.
"""

import itertools
from datetime import datetime, timedelta

from bettercompute import clock
from bettercompute.agent import hosts
from bettercompute.agent.inventory import Gpu, HostInventory
from bettercompute.iam.models import Tenant
from nodes import inventory, registration
from nodes.models import Node
from pools.models import Pool

_numbers = itertools.count(1)

H100 = Gpu(
    uuid="GPU-00000000-0000-0000-0000-000000000000",
    index=0,
    model="NVIDIA H100 80GB HBM3",
    model_class="H100",
    memory_mib=81_559,
    pci_bus_id="00000000:01:00.0",
)


def tenant(slug: str = "acme") -> Tenant:
    """The tenant of this name, made on first use."""
    return Tenant.objects.get_or_create(slug=slug, defaults={"name": slug.title()})[0]


def pool(name: str = "", *, owner: str = "acme", **policy: object) -> Pool:
    """A new pool of a tenant."""
    return Pool.objects.create(
        tenant=tenant(owner), name=name or f"pool-{next(_numbers)}", policy=policy
    )


def host(key: str, *, gpus: int = 8, vcpu: int = 194, memory_gib: int = 2048) -> HostInventory:
    """What a machine of so many H100s reports."""
    one = HostInventory(gpus=(H100,))
    return hosts.multiply(one, gpus=gpus, node_key=key, vcpu=vcpu, memory_gib=memory_gib)


def node(
    in_pool: Pool | None = None,
    name: str = "",
    *,
    gpus: int = 8,
    vcpu: int = 194,
    memory_gib: int = 2048,
) -> Node:
    """A registered node whose inventory is applied."""
    name = name or f"gpu-{next(_numbers):04}"
    made = registration.register((in_pool or pool()).pk, name)
    inventory.apply(made.pk, host(name, gpus=gpus, vcpu=vcpu, memory_gib=memory_gib))
    return made


def devices(of: Node) -> list[str]:
    """The ids of a node's devices, as the driver counts them."""
    return list(of.devices.order_by("index", "id").values_list("pk", flat=True))


def window(starts_in: str | timedelta = timedelta(0), hours: float = 1) -> dict[str, datetime]:
    """``start`` and ``end`` as keywords, in whole milliseconds, from the simulated now."""
    delta = timedelta(0) if starts_in == timedelta(0) else starts_in
    assert isinstance(delta, timedelta)
    start = clock.now() + delta
    return {"start": start, "end": start + timedelta(hours=hours)}
