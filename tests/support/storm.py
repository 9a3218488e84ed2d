"""The capacity storm (C16): everything that changes what may be booked, at once, by use cases.

A seed decides every operation and its parameters; what each meets is decided by threads and server.
Time stands still within a round and is stepped between rounds.
"""

import itertools
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from django.db import transaction

from bettercompute import clock, errors, wiring
from bettercompute.agent.inventory import Gpu, Health
from bettercompute.coordination.runner import Runner
from bettercompute.iam.callers import Caller
from bettercompute.wire.reservations import ExtendRequest, ReservationRequest
from nodes import devices, eligibility, inventory, maintenance, resources
from nodes.models import Mode, Node
from pools import quota
from pools.models import Offer, Placer, Pool
from reservations import admission, ending, previews, renewal
from reservations.extending import extension
from reservations.models import Reservation, Series
from reservations.series import cancelling
from tests.support import cast, make, races, supply
from tests.support.races import Operation, Outcome
from tests.support.storm_agents import Agent

HOUR_MS = 3_600_000
LAYOUTS = (
    [("1g.10gb", start) for start in range(7)],
    [("3g.40gb", 0), ("3g.40gb", 4)],
)

# How often each operation comes, of a hundred.
WEIGHTS = {
    "create": 32,
    "retry": 3,
    "release": 7,
    "cancel": 4,
    "extend": 8,
    "renew": 2,
    "work": 12,
    "report": 9,
    "cordon": 5,
    "taint": 3,
    "silence": 3,
    "quarantine": 3,
    "health": 2,
    "mode": 3,
    "quota": 1,
    "shrink": 1,
    "preview": 1,
    "placer": 1,
    "maintain": 3,
    "repeat": 3,
    "cease": 2,
}


Body = Callable[[random.Random, int], dict[str, Any]]


class Operations:
    """What tenants and operators do to a small cloud, each thing as a generator decides.

    The storm does them all at once; the simulation does them one step at a time.
    """

    def __init__(
        self, pools: Sequence[Pool], callers: Sequence[Caller], body: Body | None = None
    ) -> None:
        self.pools = pools
        self.callers = callers
        self._body = body or _body
        self.nodes = list(Node.objects.order_by("pk"))
        # Cards of these are cut and made whole again; what the other hosts report is their health.
        self.cut = self.nodes[::3]
        self.acknowledged: list[str] = []
        self.asked: list[tuple[Caller, ReservationRequest, str]] = []
        self._numbers = itertools.count(1)

    def release_all(self) -> None:
        """End whatever has not ended, and book no more of what repeats."""
        for series in Series.objects.filter(state="active").order_by("pk"):
            with suppress(errors.InvalidState):  # the last one has begun
                cancelling.cancel(self._holder(series), series_id=series.pk)
        for reservation in Reservation.objects.exclude(state="draft").filter(ended_at=None):
            ending.release(self._holder(reservation), reservation_id=reservation.pk)

    def _holder(self, owned: Reservation | Series) -> Caller:
        return next(each for each in self.callers if each.tenant_id == owned.tenant_id)

    # --- tenants --------------------------------------------------------------------------------

    def create(self, rng: random.Random, now_ms: int) -> str:
        """Ask for something new."""
        caller, key = rng.choice(self.callers), f"storm-{next(self._numbers)}"
        wanted = make.request(caller, rng.choices(self.pools, [3, 1])[0], **self._body(rng, now_ms))
        self.asked.append((caller, wanted, key))
        return self._admit(caller, wanted, key)

    def repeat(self, rng: random.Random, now_ms: int) -> str:
        """Ask for something on this day and the next."""
        caller, key = rng.choice(self.callers), f"storm-{next(self._numbers)}"
        body = self._body(rng, now_ms)
        body.setdefault("start", now_ms + HOUR_MS)
        body["recurrence"] = {"rule": "FREQ=DAILY;COUNT=2", "timeZone": "Europe/Berlin"}
        return self._admit(caller, make.request(caller, rng.choice(self.pools), **body), key)

    def cease(self, rng: random.Random, now_ms: int) -> str | None:
        """Leave out an occurrence of something that repeats, or all that have not begun."""
        found = list(Series.objects.order_by("pk"))
        if not found:
            return None
        series = rng.choice(found)
        caller = rng.choice(self.callers)
        if rng.random() < 0.5:
            cancelling.cancel(caller, series_id=series.pk, release_running=rng.random() < 0.5)
        else:
            starts = Reservation.objects.filter(series=series).order_by("occurrence_at")
            chosen = rng.choice(list(starts.values_list("occurrence_at", flat=True)))
            cancelling.skip(caller, series_id=series.pk, occurrence=chosen)
        return series.pk

    def retry(self, rng: random.Random, now_ms: int) -> str | None:
        """Ask again for what was asked for before, by the same key."""
        return self._admit(*rng.choice(self.asked)) if self.asked else None

    def _admit(self, caller: Caller, wanted: ReservationRequest, key: str) -> str:
        admitted = admission.admit(caller, wanted, idempotency_key=key)
        self.acknowledged.append(admitted.reservation_id)
        return admitted.reservation_id

    def release(self, rng: random.Random, now_ms: int) -> str | None:
        """End one of the last, perhaps somebody else's."""
        return self._on_one(ending.release, rng)

    def cancel(self, rng: random.Random, now_ms: int) -> str | None:
        """Withdraw one of the last."""
        return self._on_one(ending.cancel, rng)

    def _on_one(self, verb: Callable[..., Any], rng: random.Random) -> str | None:
        if not self.acknowledged:
            return None
        chosen = rng.choice(self.acknowledged[-60:])
        verb(rng.choice(self.callers), reservation_id=chosen)
        return chosen

    def extend(self, rng: random.Random, now_ms: int) -> str | None:
        """Have one of the last go on longer, now and then by a key used before."""
        if not self.acknowledged:
            return None
        chosen = rng.choice(self.acknowledged[-20:])  # so that some meet each other, and an end
        caller = self._holder(Reservation.objects.get(pk=chosen))
        by = rng.choice([1, "10m", "30m", "2h"])
        wanted = ExtendRequest(tenant_id=caller.tenant_id, by=by)
        key = f"longer-{rng.randrange(4)}"
        extension.extend(caller, wanted, reservation_id=chosen, idempotency_key=key)
        return chosen

    def renew(self, rng: random.Random, now_ms: int) -> str | None:
        """Say that one of the last lives, if it has a lease."""
        return self._on_one(renewal.renew, rng)

    def preview(self, rng: random.Random, now_ms: int) -> None:
        """Only look."""
        caller = rng.choice(self.callers)
        previews.preview(
            caller, make.request(caller, rng.choice(self.pools), **self._body(rng, now_ms))
        )

    # --- operators ------------------------------------------------------------------------------

    def cordon(self, rng: random.Random, now_ms: int) -> None:
        """Or end it, which is likelier."""
        verb = rng.choice([eligibility.cordon, eligibility.uncordon, eligibility.uncordon])
        verb(rng.choice(self.nodes).pk)

    def taint(self, rng: random.Random, now_ms: int) -> None:
        """Or take the taints away."""
        taints = rng.choice([[], [], [{"key": "maintenance", "effect": "NoSchedule"}]])
        eligibility.taint(rng.choice(self.nodes).pk, taints)

    def maintain(self, rng: random.Random, now_ms: int) -> None:
        """Announce maintenance of a node, seldom of a pool; or call off what is announced."""
        node = rng.choice(self.nodes)
        standing = maintenance.standing(node.pool_id)
        account_id = self.callers[0].account_id
        if standing and rng.random() < 0.5:
            maintenance.cancel(rng.choice(standing).id, account_id=account_id)
            return
        whole = rng.random() < 0.1
        at = maintenance.place(
            pool_id=node.pool_id if whole else None, node_id=None if whole else node.pk
        )
        assert at is not None
        start = clock.from_ms(now_ms + rng.randrange(6) * 3_600_000)
        end = start + timedelta(minutes=30)
        maintenance.announce(at, start=start, end=end, reason="storm", account_id=account_id)

    def quarantine(self, rng: random.Random, now_ms: int) -> None:
        """Or end it."""
        device = rng.choice(supply.devices(rng.choice(self.nodes)))
        if rng.random() < 0.4:
            eligibility.quarantine(device, reason="storm")
        else:
            eligibility.end_quarantine(device)

    def mode(self, rng: random.Random, now_ms: int) -> str:
        """Hand a card out another way."""
        gpus = rng.choice(self.cut).devices.filter(kind="gpu").order_by("pk")
        gpu = rng.choice([gpu.pk for gpu in gpus][:4])
        match rng.choice(list(Mode)):
            case Mode.MIG:
                how: dict[str, Any] = {"mode": Mode.MIG, "layout": rng.choice(LAYOUTS)}
            case Mode.SLOTS:
                how = {"mode": Mode.SLOTS, "slots": rng.choice([2, 4])}
            case _:
                how = {"mode": Mode.WHOLE}
        return devices.set_mode(gpu, window_seconds=30, **how).command_id

    def quota(self, rng: random.Random, now_ms: int) -> None:
        """Give a tenant another quota."""
        tenant = rng.choice(self.callers).tenant_id
        quota.set_max(tenant, quota.GPU_MILLI, rng.choice([16_000, 60_000, 120_000]))

    def placer(self, rng: random.Random, now_ms: int) -> None:
        """Let a pool be served by the other placer, whoever waits for it."""
        make.placed_by(rng.choice(list(Placer)), rng.choice(self.pools))

    def shrink(self, rng: random.Random, now_ms: int) -> None:
        """Let a host have fewer CPUs to give, or more again."""
        with transaction.atomic():
            resources.set_allocatable(
                rng.choice(self.nodes).pk, {"vcpu": rng.choice([48, 96, 192])}
            )


class Storm(Operations):
    """A small cloud, two tenants, operators, agents and a worker, all at once."""

    def __init__(self, seed: int, *, nodes: int = 6) -> None:
        self.seed = seed
        pools = [make.pool(nodes=nodes), make.pool(nodes=nodes // 2)]
        pools[1].placer = "queued"
        pools[1].save()
        for pool in pools:
            Offer.objects.create(pool=pool, tenant=cast.tenant("globex"))
        make.grant("acme", gpus=120)
        make.grant("globex", gpus=60)
        super().__init__(pools, [cast.caller("alice"), cast.caller("mallory")])
        self.agents = {node.pk: Agent(node.pk) for node in self.nodes}
        self.runner = Runner(wiring.reconcilers())

    def round(self, number: int, *, operations: int, connections: int = 16) -> list[Outcome]:
        """So many operations at once, at one instant."""
        now_ms = clock.now_ms()
        choice = random.Random(f"{self.seed} {number}")
        names = choice.choices(list(WEIGHTS), list(WEIGHTS.values()), k=operations)
        planned = []
        for name in names:
            rng = random.Random(f"{self.seed} {number} {len(planned)}")
            planned.append(Operation(name, self._bound(name, rng, now_ms)))
        return races.crowd(planned, connections=connections)

    def calm(self) -> None:
        """End everything, and let worker and agents have their way until nothing is left to do."""
        self.release_all()
        while True:
            ran = self.runner.drain()
            said = [agent.report(silent=0.0, failing=0.0) for agent in self.agents.values()]
            if not ran and not any(said):
                return

    def _bound(self, name: str, rng: random.Random, now_ms: int) -> Callable[[], Any]:
        operation: Callable[[random.Random, int], Any] = getattr(self, name)
        return lambda: operation(rng, now_ms)

    # --- hosts and the worker -------------------------------------------------------------------

    def silence(self, rng: random.Random, now_ms: int) -> None:
        """Judge a node unreachable, or ready again."""
        verb = rng.choice([eligibility.mark_unreachable, eligibility.mark_ready])
        verb(rng.choice(self.nodes).pk)

    def health(self, rng: random.Random, now_ms: int) -> None:
        """A host reports a sick card, or that all are well."""
        node = rng.choice([node for node in self.nodes if node not in self.cut])
        host = supply.host(node.name)
        sick = rng.randrange(16)  # half of the time all are well
        gpus = tuple(_ill(gpu) if gpu.index == sick else gpu for gpu in host.gpus)
        inventory.apply(node.pk, host.model_copy(update={"gpus": gpus}))

    def report(self, rng: random.Random, now_ms: int) -> object:
        """An agent says something."""
        return rng.choice(list(self.agents.values())).report(silent=0.2, failing=0.1, rng=rng)

    def work(self, rng: random.Random, now_ms: int) -> int:
        """A worker runs a few rows."""
        return self.runner.drain(limit=8)


def _ill(gpu: Gpu) -> Gpu:
    return gpu.model_copy(update={"health": Health.UNHEALTHY, "health_reason": "xid 79"})


def _body(rng: random.Random, now_ms: int) -> dict[str, Any]:
    """What somebody may ask for."""
    body: dict[str, Any] = {
        "devices": [_line(rng)],
        "duration": rng.choice(["20m", "1h", "2h", "4h"]),
    }
    if rng.random() < 0.5:
        body["start"] = now_ms + rng.choice([1, 2, 4, 8]) * HOUR_MS // 2
    if rng.random() < 0.3:
        body["resources"] = {"vcpu": rng.choice([8, 32, 64]), "memoryGiB": rng.choice([64, 512])}
    if rng.random() < 0.15:
        body["gang"] = {"nodes": rng.choice([2, 3]), "topology": "any"}
    if rng.random() < 0.1:
        body["tolerations"] = [{"key": "maintenance", "op": "exists"}]
    if rng.random() < 0.1:
        body["leaseSeconds"] = 900
    if rng.random() < 0.3:
        body["spot"] = True
    return body


def _line(rng: random.Random) -> dict[str, Any]:
    kind = rng.choices(["gpu", "range", "mig", "slot", "any"], [60, 8, 14, 10, 8])[0]
    match kind:
        case "gpu":
            return {"class": "gpu", "count": rng.choice([1, 1, 1, 2, 2, 4, 8])}
        case "range":
            return {"class": "gpu", "count": {"min": 1, "max": 4}}
        case "mig":
            profile = rng.choice(["1g.10gb", "1g.10gb", "3g.40gb"])
            return {"class": "gpu.mig", "profile": profile, "count": rng.choice([1, 2, 3])}
        case "slot":
            return {"class": "gpu.slot", "count": 1}
        case _:
            return {
                "anyOf": [
                    {"class": "gpu.mig", "profile": "3g.40gb", "count": 1},
                    {"class": "gpu", "count": 1},
                ]
            }


# Starts are half an hour ahead and more: the longest step comes into the quarter before them, in
# which what cannot serve is replaced.
STEPS = (timedelta(seconds=20), timedelta(minutes=6), timedelta(minutes=25))
