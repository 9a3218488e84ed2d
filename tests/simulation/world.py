"""The small cloud that a simulation plays with, made anew in an emptied database."""

import random
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.db import connection

from bettercompute import clock
from bettercompute.agent.inventory import HostInventory
from nodes import eligibility, enrollment, registration
from nodes import inventory as inventories
from nodes.protocol.signing import NodeKey
from pools.models import Offer, Pool
from tests.simulation.entropy import START
from tests.support import cast, make, supply
from tests.support.storm import Operations

GPUS = 4
HOSTS = {"alpha": ("a1", "a2"), "beta": ("b1",)}  # the second pool's placer queues
QUOTA_GPUS = {"acme": 16, "globex": 10}

_TABLES = """
SELECT string_agg(quote_ident(relname), ', ')
  FROM pg_class
 WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
   AND relname NOT IN ('django_migrations', 'compute_sim_clock')
   AND pg_relation_size(oid) > 0
"""
_CALM_TABLES = """
SELECT format('ALTER TABLE %I SET (autovacuum_enabled = off)', relname)
  FROM pg_class
 WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
"""


@dataclass(frozen=True, slots=True)
class Member:
    """A node whose agent is simulated."""

    name: str
    node_id: str
    key: NodeKey
    inventory: HostInventory


@dataclass(frozen=True, slots=True)
class World:
    """What there is before the first step."""

    operations: Operations
    members: list[Member]


def prepare() -> None:
    """Once per database: simulated time, and nothing that runs by itself."""
    clock.use_sim_clock(START)
    with connection.cursor() as cursor:
        cursor.execute(_CALM_TABLES)
        for (statement,) in cursor.fetchall():
            cursor.execute(statement)


def make_anew() -> World:
    """Empty the database, and make the cloud by the use cases that make one."""
    with connection.cursor() as cursor:
        cursor.execute(_TABLES)
        (tables,) = cursor.fetchone()
        if tables is not None:
            cursor.execute(f"TRUNCATE {tables} RESTART IDENTITY CASCADE")
    clock.set_sim_clock(START)
    pools = [_pool("alpha", placer="inline"), _pool("beta", placer="queued")]
    members = [_member(pool, name) for pool in pools for name in HOSTS[pool.name]]
    for slug, gpus in QUOTA_GPUS.items():
        make.grant(slug, gpus=gpus)
    callers = [cast.caller("alice"), cast.caller("mallory")]
    return World(Operations(pools, callers, _body), members)


def _body(rng: random.Random, now_ms: int) -> dict[str, Any]:
    """What somebody asks of so small a cloud: mostly a card or two, mostly now."""
    body: dict[str, Any] = {"devices": [_line(rng)], "duration": rng.choice(["5m", "30m", "2h"])}
    if rng.random() < 0.25:
        body["start"] = now_ms + rng.choice([30, 120, 600, 3_600]) * 1_000
    if rng.random() < 0.2:
        body["resources"] = {"vcpu": rng.choice([8, 64]), "memoryGiB": rng.choice([64, 512])}
    if rng.random() < 0.08:
        body["gang"] = {"nodes": 2, "topology": "any"}
    if rng.random() < 0.1:
        body["tolerations"] = [{"key": "maintenance", "op": "exists"}]
    if rng.random() < 0.15:
        body["leaseSeconds"] = 900
    if rng.random() < 0.3:
        body["spot"] = True
    return body


def _line(rng: random.Random) -> dict[str, Any]:
    match rng.choices(["gpu", "range", "mig", "slot"], [80, 10, 5, 5])[0]:
        case "gpu":
            return {"class": "gpu", "count": rng.choice([1, 1, 1, 1, 2, 2, 3])}
        case "range":
            return {"class": "gpu", "count": {"min": 1, "max": 3}}
        case "mig":
            return {"class": "gpu.mig", "profile": "1g.10gb", "count": 1}
        case _:
            return {"class": "gpu.slot", "count": 1}


def _pool(name: str, *, placer: str) -> Pool:
    pool = supply.pool(name)
    Pool.objects.filter(pk=pool.pk).update(placer=placer)
    Offer.objects.create(pool=pool, tenant=cast.tenant("globex"))
    return pool


def _member(pool: Pool, name: str) -> Member:
    node = registration.register(pool.pk, name)
    inventory = supply.host(name, gpus=GPUS)
    inventories.apply(node.pk, inventory)
    eligibility.set_system_labels(node.pk, {"bc.dev/cap.devices.limits": "true"})
    key = NodeKey(Ed25519PrivateKey.from_private_bytes(name.encode().ljust(32, b".")))
    token = enrollment.create(node_id=node.pk).token
    enrollment.enroll(token=token, public_key=key.public_key)
    return Member(name, node.pk, key, inventory)
