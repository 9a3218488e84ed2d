"""What there is to book: a tenant with a token and room in its quota, a pool of so many nodes."""

from dataclasses import dataclass
from pathlib import Path

from django.core.management import call_command

from bettercompute.iam import accounts, memberships, tenants, tokens
from bettercompute.iam.models import Role, Tenant
from nodes.models import Device, Node
from pools import catalogue, quota

DATA = Path(__file__).parents[1] / "tests" / "data"
H100 = DATA / "nvidia-smi" / "linux-x86_64__nvidia-h100-80gb-hbm3__590.48.01.txt"
OPENB = DATA / "openb" / "openb_node_list_gpu_node.csv"
OPENB_NODES = 1_213

TENANT = "bench"


@dataclass(frozen=True, slots=True)
class Person:
    """Who books."""

    tenant_id: str
    account_id: str
    token: str


@dataclass(frozen=True, slots=True)
class Supply:
    """A pool and what is in it."""

    pool_id: str
    name: str
    nodes: int
    gpus: int


def person() -> Person:
    """One admin of one tenant."""
    tenant = tenants.create(slug=TENANT, name="Bench")
    account = accounts.create(username="bench", password=None, operator=False)
    memberships.add(account, tenant, role=Role.ADMIN)
    for resource in quota.RESOURCES:
        quota.set_max(tenant.pk, resource, 10**12)
    _, token = tokens.mint(account, tenant, name="bench")
    return Person(tenant.pk, account.pk, token)


def h100s(nodes: int, *, name: str = "") -> Supply:
    """Hosts of eight cards each, all like one real capture."""
    pool_id = _pool(name or f"h100-{nodes}")
    call_command(
        "import_inventory",
        str(H100),
        tenant=TENANT,
        pool=pool_id,
        multiply=8,
        nodes=nodes,
        capability=["devices.limits"],
        vcpu=194,
        memory_gib=2_048,
        verbosity=0,
    )
    return _counted(pool_id, f"{nodes} hosts of 8 H100")


def openb() -> Supply:
    """The hosts of a production cluster, as Alibaba published them."""
    pool_id = _pool("openb")
    call_command(
        "import_fleet",
        "openb",
        str(OPENB),
        tenant=TENANT,
        pool=pool_id,
        capability=["devices.limits"],
        verbosity=0,
    )
    return _counted(pool_id, "openb, a production cluster")


def _pool(name: str) -> str:
    tenant = Tenant.objects.get(slug=TENANT)
    return catalogue.create_pool(tenant, name=name).pk


def _counted(pool_id: str, name: str) -> Supply:
    nodes = Node.objects.filter(pool_id=pool_id).count()
    gpus = Device.objects.filter(node__pool_id=pool_id, bookable_mode="whole").count()
    return Supply(pool_id, name, nodes, gpus)
