"""The demo: two tenants, four people, two pools on real inventories, some bookings (U10).

Running it again changes nothing that is there: people keep their passwords and tokens (kept by the
caller, in a file of the data directory), pools their nodes, and bookings carry a key of their day.

Who is there: alice (admin) and bob (member) of acme, which owns pool ``main``: 4 nodes of 8 whole
H100s; and ``mig``: a node of 8 H100s cut into instances, offered to mallory's globex. olga operates
the platform. The bookings leave at least 20 of main's 32 GPUs free at any time.
"""

import contextlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from bettercompute import clock
from bettercompute.agent import hosts
from bettercompute.agent.inventory import HostInventory
from bettercompute.agent.vendors import nvidia
from bettercompute.errors import ApiError, Unauthenticated
from bettercompute.iam import callers, memberships, tokens
from bettercompute.iam.models import Account, Role, Tenant
from bettercompute.states import ReservationState
from bettercompute.wire.reservations import ReservationRequest
from nodes import importing, layouts
from pools import catalogue, quota
from pools.models import Pool
from reservations import admission, ending
from reservations.models import Reservation

MAIN_NODES = 4
MIG_NODES = 1
GPUS_PER_NODE = 8
VCPU = 192 + 2  # two are kept for the host itself
MEMORY_GIB = 2_048
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
CAPABILITIES = ("devices.limits",)
# Where main's nodes stand, for gangs that ask to be close (R16).
ONE_RACK = {"topology.bc.dev/rack": "r1", "topology.bc.dev/switch": "leaf-1"}

# Of each account its tenant, its role there, and whether it operates the platform.
PEOPLE = {
    "alice": ("acme", Role.ADMIN, False),
    "bob": ("acme", Role.MEMBER, False),
    "mallory": ("globex", Role.ADMIN, False),
    "olga": ("platform", Role.ADMIN, True),
}
TENANTS = {"acme": "Acme Research", "globex": "Globex", "platform": "Platform operations"}
QUOTA_GPUS = {"acme": 256, "globex": 32}


@dataclass(slots=True)
class Secrets:
    """Passwords and tokens in plain text, so that a restart prints the same ones."""

    passwords: dict[str, str]
    tokens: dict[str, str]

    @classmethod
    def parse(cls, text: str) -> "Secrets":
        """From the text of the caller's file; an empty one has none."""
        known = json.loads(text or "{}")
        return cls(dict(known.get("passwords", {})), dict(known.get("tokens", {})))

    def text(self) -> str:
        """For the caller's file."""
        return json.dumps({"passwords": self.passwords, "tokens": self.tokens}, indent=2) + "\n"


def build(kept: Secrets, *, nodes: int = MAIN_NODES + MIG_NODES) -> dict[str, Any]:
    """Make what is missing, and answer what there is, as ``demo.json`` says it.

    ``nodes`` beyond the five of the demo become a third pool, ``fleet``, of H200 hosts.
    """
    tenants = {slug: _tenant(slug, name) for slug, name in TENANTS.items()}
    people = {name: _person(name, kept, tenants) for name in PEOPLE}
    for slug, gpus in QUOTA_GPUS.items():
        _grant(tenants[slug], gpus)
    pools = _pools(tenants, nodes)
    _bookings(people, pools)
    home = {name: tenants[slug].pk for name, (slug, _, _) in PEOPLE.items()}
    return {
        "tenant": tenants["acme"].pk,
        "tenants": home,
        "pools": {name: pool.pk for name, pool in pools.items()},
        "tokens": {name: kept.tokens[name] for name in PEOPLE},
        "logins": {name: {"username": name, "password": kept.passwords[name]} for name in PEOPLE},
    }


def _tenant(slug: str, name: str) -> Tenant:
    made, _ = Tenant.objects.get_or_create(slug=slug, defaults={"name": name})
    return made


def _person(name: str, kept: Secrets, tenants: Mapping[str, Tenant]) -> Account:
    slug, role, operator = PEOPLE[name]
    account, made = Account.objects.get_or_create(
        username=name, defaults={"is_staff": operator, "is_superuser": operator}
    )
    if made or name not in kept.passwords:
        kept.passwords[name] = secrets.token_urlsafe(12)
    if not account.check_password(kept.passwords[name]):
        account.set_password(kept.passwords[name])
        account.save(update_fields=["password"])
    memberships.add(account, tenants[slug], role=role)
    if not _works(kept.tokens.get(name)):
        _, kept.tokens[name] = tokens.mint(
            account, tenants[slug], name="demo", requests_per_second=0
        )
    return account


def _works(token: str | None) -> bool:
    try:
        return token is not None and tokens.find(token) is not None
    except Unauthenticated:
        return False


def _grant(tenant: Tenant, gpus: int) -> None:
    limits = {
        quota.GPU_MILLI: gpus * 1_000,
        quota.VCPU: gpus * VCPU,
        quota.MEMORY_GIB: gpus * MEMORY_GIB,
    }
    known = {usage.resource for usage in quota.usage(tenant.pk)}
    for resource, maximum in limits.items():
        if resource not in known:  # an operator may have changed it since
            quota.set_max(tenant.pk, resource, maximum)


def _pools(tenants: Mapping[str, Tenant], nodes: int) -> dict[str, Pool]:
    acme = tenants["acme"]
    pools = {"main": _pool(acme, "main", "eu-west"), "mig": _pool(acme, "mig", "eu-west")}
    catalogue.offer(pools["mig"], tenants["globex"])
    main = {f"gpu-{n:02}": _h100(f"main-{n}") for n in range(1, MAIN_NODES + 1)}
    _fill(pools["main"], main, labels=ONE_RACK)
    _fill(pools["mig"], {f"mig-{n:02}": _cut(f"mig-{n}") for n in range(1, MIG_NODES + 1)})
    more = nodes - MAIN_NODES - MIG_NODES
    if more > 0:
        pools["fleet"] = _pool(acme, "fleet", "eu-north")
        _fill(pools["fleet"], {f"h200-{n:04}": _h200(f"fleet-{n}") for n in range(1, more + 1)})
    return pools


def _pool(owner: Tenant, name: str, region: str) -> Pool:
    known = Pool.objects.filter(tenant=owner, name=name).first()
    return known or catalogue.create_pool(
        owner, name=name, region=region, policy={"maxAhead": "366d"}
    )


def _fill(
    pool: Pool, machines: Mapping[str, HostInventory], *, labels: Mapping[str, str] | None = None
) -> None:
    importing.import_hosts(pool.pk, machines, capabilities=CAPABILITIES, labels=labels)


def _h100(key: str) -> HostInventory:
    return _multiplied("nvidia-h100-80gb-hbm3.txt", key)


def _h200(key: str) -> HostInventory:
    return _multiplied("nvidia-h200.txt", key)


def _multiplied(capture: str, key: str) -> HostInventory:
    text = (resources.files("nodes") / "captures" / capture).read_text(encoding="utf-8")
    return hosts.multiply(
        nvidia.read(text, source=capture),
        gpus=GPUS_PER_NODE,
        node_key=f"demo-{key}",
        vcpu=VCPU,
        memory_gib=MEMORY_GIB,
    )


def _cut(key: str) -> HostInventory:
    """Half of the cards in the smallest instances, half in a mix."""
    host = _h100(key)
    small = layouts.pack("H100", {"1g.10gb": 7})
    mixed = layouts.pack("H100", {"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 2})
    half = GPUS_PER_NODE // 2
    host = hosts.with_mig_layout(host, small, gpu_indexes=range(half))
    return hosts.with_mig_layout(host, mixed, gpu_indexes=range(half, GPUS_PER_NODE))


def _bookings(people: Mapping[str, Account], pools: Mapping[str, Pool]) -> None:
    """Something to look at: at most 4 + 8 of main's GPUs at once, whatever days it runs on."""
    today_ms = clock.now_ms() // DAY_MS * DAY_MS
    day = today_ms // DAY_MS
    gpus = {"class": "gpu", "count": 4}
    linked = {"class": "gpu", "count": 8, "topology": "nvlink-all"}
    small = {"class": "gpu.mig", "count": 3, "profile": "1g.10gb"}
    tomorrow = {"start": today_ms + DAY_MS + 9 * HOUR_MS, "duration": "4h"}
    _book(people["bob"], "acme", pools["main"], gpus, key=f"demo-{day}-train", duration="6h")
    _book(people["alice"], "acme", pools["main"], linked, key=f"demo-{day}-sweep", **tomorrow)
    _book(people["bob"], "acme", pools["mig"], small, key=f"demo-{day}-notebook", duration="8h")
    _book(people["mallory"], "globex", pools["mig"], small, key=f"demo-{day}-ci", duration="3h")


def _book(
    account: Account, slug: str, pool: Pool, line: Mapping[str, Any], *, key: str, **when: Any
) -> None:
    tenant = Tenant.objects.get(slug=slug)
    wanted = ReservationRequest.model_validate_json(
        json.dumps({"tenantId": tenant.pk, "poolId": pool.pk, "devices": [line], **when})
    )
    caller = callers.for_tenant(account, tenant.pk)
    # What people did to the demo since (filled it, set limits) must not keep it from starting.
    with contextlib.suppress(ApiError):
        booked = admission.admit(caller, wanted, idempotency_key=key)
        # Were a day's bookings to wait, they would later take more together than their share.
        if Reservation.objects.get(pk=booked.reservation_id).state == ReservationState.PENDING:
            ending.cancel(caller, reservation_id=booked.reservation_id)
