"""The product as the model sees it: calls and answers, hosts that speak, and time.

Everything is real but the hosts: the REST API, the reconcilers over the work queue, PostgreSQL.
"""

import itertools
import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from unittest import mock

from django.db import connection, transaction

from bettercompute import clock, ids, wiring
from bettercompute.coordination.runner import Runner
from nodes import devices, eligibility, inventory
from nodes.models import Device, Mode
from nodes.models import Node as NodeRow
from nodes.protocol.messages import ReportKind
from pools import catalogue, chance
from tests.support import cast, make, supply
from tests.support.model.cloud import Key
from tests.support.model.entries import HOUR, Said, Who
from tests.support.model.ground import Node, Pool
from tests.support.storm_agents import Agent

CALLERS = ("alice", "bob", "mallory")
READERS = {"acme": "alice", "globex": "mallory"}
QUOTAS = {"acme": 64, "globex": 4}
RACK = "topology.bc.dev/rack"
LIMITS = {"bc.dev/cap.devices.limits": "true"}
HALVES = [("3g.40gb", 0), ("3g.40gb", 4)]
MANNERS = (*["prompt"] * 6, "silent", "failing")
VCPU = 26  # of a host, less the two that it keeps
SETTLING_ROUNDS_MAX = 30
_UNLIMITED = """SELECT
    set_config('idle_in_transaction_session_timeout', '0', true),
    set_config('statement_timeout', '0', true)"""

_SAID = {
    ReportKind.ALLOCATION_BOUND: Said.BOUND,
    ReportKind.ALLOCATION_FAILED: Said.FAILED,
    ReportKind.ALLOCATION_RELEASED: Said.RELEASED,
}


class Host:
    """A machine: its inventory, and an agent that is prompt, silent or fails."""

    def __init__(self, row: NodeRow, *, gpus: int) -> None:
        self.row, self.gpus, self.vcpu = row, gpus, VCPU
        self.agent = Agent(row.pk)
        self.manner = "prompt"
        self.sick: set[int] = set()

    def begin_anew(self) -> None:
        """Nothing was said or happened yet."""
        self.vcpu, self.manner, self.sick = VCPU, "prompt", set()
        self.agent.said.clear()

    def speak(self) -> dict[str, Said]:
        """Report what is wanted, in the agent's manner; answers what was said of what."""
        if self.manner == "silent":
            return {}
        before = dict(self.agent.said)
        self.agent.report(silent=0.0, failing=1.0 if self.manner == "failing" else 0.0)
        return {
            allocation: _SAID[kind]
            for allocation, kind in self.agent.said.items()
            if before.get(allocation) != kind
        }

    def take_stock(self) -> None:
        """Report the inventory as it is now."""
        host = supply.host(self.row.name, gpus=self.gpus, vcpu=self.vcpu)
        gpus = tuple(
            gpu.model_copy(update={"health": "unhealthy", "health_reason": "xid 79"})
            if gpu.index in self.sick
            else gpu
            for gpu in host.gpus
        )
        inventory.apply(self.row.pk, host.model_copy(update={"gpus": gpus}))


class Product:
    """Two pools, five hosts, two tenants, and a worker."""

    def __init__(self) -> None:
        self.api = {name: cast.api(name) for name in CALLERS}
        self.who = {name: _who(name) for name in CALLERS}
        self.pools = self._make_pools()
        self.hosts = self._make_hosts()
        for slug, gpus in QUOTAS.items():
            make.grant(slug, gpus=gpus)
        clock.advance_sim_clock(timedelta(minutes=10))  # the card is cut by then

    def nodes(self) -> list[Node]:
        """The hosts, as the model takes them."""
        return [
            Node(
                id=host.row.pk,
                pool=host.row.pool_id,
                rack=host.row.labels.get(RACK),
                devices=_kinds(host.row),
                vcpu=VCPU - 2,
            )
            for host in self.hosts
        ]

    def limits(self) -> dict[str, dict[str, int]]:
        """What each tenant may hold at most."""
        return {
            cast.tenant(slug).pk: {"gpuMilli": gpus * 1_000, "vcpu": 10**5}
            for slug, gpus in QUOTAS.items()
        }

    def begin(self) -> None:
        """A worker of this run."""
        self._runner = Runner(wiring.reconcilers())

    def work(self) -> None:
        """Do all that is due."""
        self._runner.drain()
        with connection.cursor() as cursor:  # what a fence sets stays for our one transaction
            cursor.execute(_UNLIMITED)

    def resync(self) -> None:
        """Wake all that lives, as the product does every few minutes."""
        wiring.resync()

    def shown(self) -> dict[Key, dict[str, Any]]:
        """Every reservation of every tenant, as answered."""
        found = {}
        for name in READERS.values():
            answer = self.api[name].get(
                f"/reservations?tenantId={self.who[name].tenant}&scope=all&limit=200"
            )
            assert answer.status_code == 200, answer.content
            document = answer.json()
            assert document["nextCursor"] is None
            for each in document["items"]:
                found[each["tenantId"], each["ownerIdentityId"], each["idempotencyKey"]] = each
        return found

    def used(self, slug: str) -> dict[str, int]:
        """What a tenant is charged, where it is anything."""
        name = READERS[slug]
        answer = self.api[name].get(f"/quotas?tenantId={self.who[name].tenant}")
        return {row["resource"]: row["used"] for row in answer.json()["items"] if row["used"]}

    def quarantined(self) -> set[str]:
        """Devices that operators see quarantined."""
        return set(Device.objects.filter(quarantined=True).values_list("pk", flat=True))

    def _make_pools(self) -> list[Pool]:
        limits = {"maxDuration": "6h", "maxAhead": "12h", "maxPending": "10h"}
        owner, guest = cast.tenant("acme"), cast.tenant("globex")
        shared = self._shared = supply.pool(perGpu={"vcpu": 8, "memoryGiB": 0}, **limits)
        catalogue.offer(shared, guest)
        own = self._own = supply.pool(perGpu={"vcpu": 0, "memoryGiB": 0}, **limits)
        own.placer = "queued"
        own.save()
        both, alone = frozenset({owner.pk, guest.pk}), frozenset({owner.pk})
        return [
            Pool(shared.pk, both, 8, 6 * HOUR, 12 * HOUR, 10 * HOUR),
            Pool(own.pk, alone, 0, 6 * HOUR, 12 * HOUR, 10 * HOUR),
        ]

    def _make_hosts(self) -> list[Host]:
        shared, own = self._shared, self._own
        made = []
        for pool, gpus, rack in (
            (shared, 2, "r1"),
            (shared, 2, "r1"),
            (shared, 2, "r2"),
            (own, 2, ""),
            (own, 1, ""),
        ):
            row = supply.node(pool, gpus=gpus, vcpu=VCPU)
            eligibility.set_system_labels(row.pk, LIMITS)
            if rack:
                eligibility.set_labels(row.pk, {RACK: rack})
            row.refresh_from_db()
            made.append(Host(row, gpus=gpus))
        cut = supply.devices(made[2].row)[0]
        devices.set_mode(cut, mode=Mode.MIG, layout=HALVES, window_seconds=60)
        return made


def _who(name: str) -> Who:
    slug, role = cast.HOMES[name]
    return Who(cast.tenant(slug).pk, str(cast.account(name).pk), str(role.value))


def _kinds(row: NodeRow) -> dict[str, tuple[str, str]]:
    classes = {Mode.WHOLE: "gpu", Mode.MIG: "gpu.mig"}
    return {
        device.pk: (classes[Mode(device.bookable_mode)], device.profile)
        for device in row.devices.exclude(bookable_mode=None)
    }


@contextmanager
def one_chance(seed: int) -> Iterator[None]:
    """Let the product draw all its chance from a seed, so that a run can be had again."""
    drawn, numbers = random.Random(seed), itertools.count(1)
    ids.draw_from(lambda: next(numbers) << 40 | drawn.getrandbits(40))
    try:
        with mock.patch.object(chance, "RNG", drawn):
            yield
    finally:
        ids.draw_from(None)


@contextmanager
def undone() -> Iterator[None]:
    """Let the database forget whatever happens, in a test that runs in one transaction."""
    block = transaction.atomic()
    block._from_testcase = True  # what is durable is so within it, as in a test case
    with block:
        yield
        transaction.set_rollback(True)
