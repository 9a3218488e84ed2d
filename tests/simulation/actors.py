"""The simulated processes: what lives in their memory, and how they die and come back."""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
from django.db import connections, transaction

from bettercompute import ids, wiring
from bettercompute.agent.atoms import Atom
from bettercompute.agent.bind import BindFailed, MemoryHolds
from bettercompute.agent.cdi import Bound
from bettercompute.agent.daemon import Daemon
from bettercompute.agent.journal import FileJournal
from bettercompute.agent.link import Link
from bettercompute.agent.session import About, Identity, Session
from bettercompute.coordination import owner
from bettercompute.coordination.worker import Job, Worker
from nodes.gateway.app import Application
from nodes.gateway.service import Gateway
from nodes.protocol.messages import Assignment
from outbox import dispatch, events
from outbox.positions import Position
from outbox.reader import EventRow
from tests.simulation import baton
from tests.simulation.baton import Planned, Ran, Strand
from tests.simulation.database import Connection, Outage
from tests.simulation.entropy import Time
from tests.simulation.loops import Loop
from tests.simulation.network import Call, Network, Transport, serve
from tests.simulation.world import Member

SINK_SECONDS = 1.0
GATEWAYS = ("gateway-1", "gateway-2")


class SinkRefuses(Exception):
    """A consumer of events is not in the mood."""


class Process:
    """A process with one or several strands: they share its memory and die together."""

    def __init__(self, name: str, outage: Outage, *, strands: Sequence[str] = ("",)) -> None:
        self.name = name
        self.alive = False
        self.owner = ""
        settings = connections["default"].settings_dict

        def enter(strand: Strand) -> None:
            connection = Connection(settings, strand, outage)
            connections["default"] = connection
            self.connections.append(connection)

        self.connections: list[Connection] = []
        self.strands = {part: Strand(f"{name}{part}", enter) for part in strands}

    def start(self) -> None:
        """Begin a life: a new owner of leases, with nothing in memory."""
        self.alive = True
        self.owner = ids.new("own")

    def die(self) -> None:
        """End this life at once."""
        self.alive = False
        for strand in self.strands.values():
            strand.kill()
        for connection in self.connections:
            connection.sever()

    def run(
        self, part: str = "", *, points: int = baton.TO_THE_END, planned: Planned | None = None
    ) -> Ran:
        """Let one strand go on."""
        owner.OWNER = self.owner
        return self.strands[part].resume(points, planned)

    def close(self) -> None:
        """The simulation is over."""
        for strand in self.strands.values():
            strand.close()

    @property
    def idle(self) -> bool:
        """Whether no strand is in the middle of something."""
        return not any(strand.paused for strand in self.strands.values())


@dataclass
class Sink:
    """A consumer of events that remembers what it was told, and in which order."""

    name: str
    refuses: bool = False
    told: dict[str, Position] = field(default_factory=dict)
    behind: list[str] = field(default_factory=list)
    _furthest: Position = field(default_factory=lambda: Position(0, 0))

    def deliver(self, batch: Sequence[EventRow]) -> None:
        """Take a batch; what comes again is known by its id."""
        if self.refuses:
            raise SinkRefuses("simulated")
        for event in batch:
            if event.id in self.told:
                continue
            if event.position < self._furthest:
                self.behind.append(f"{self.name} heard of {event.type} after what came later")
            self._furthest = max(self._furthest, event.position)
            self.told[event.id] = event.position


class WorkerProcess(Process):
    """A worker: one strand works, the other is its pulse."""

    def __init__(self, name: str, outage: Outage, sinks: Sequence[Sink]) -> None:
        super().__init__(name, outage, strands=("", ".pulse"))
        self._sinks = sinks
        self.worker: Worker | None = None

    def start(self) -> None:
        super().start()
        owner.OWNER = self.owner
        self.worker = Worker(wiring.reconcilers(), {**wiring.ticks(), **self._deliveries()})

    def stop(self) -> None:
        """End this life in good order."""
        assert self.worker is not None
        self.worker.stop()
        self.alive = False

    def _deliveries(self) -> Mapping[str, Job]:
        return {
            dispatch.lease_name(sink.name): Job(
                SINK_SECONDS, partial(wiring._deliver, sink.name, sink)
            )
            for sink in self._sinks
        }


class GatewayProcess(Process):
    """A gateway: the real application in an event loop of simulated time."""

    def __init__(self, name: str, outage: Outage, time: Time, network: Network) -> None:
        super().__init__(name, outage)
        self._time = time
        self._network = network
        self.loop = Loop(time.seconds)
        self.application = Application()

    def start(self) -> None:
        super().start()
        owner.OWNER = self.owner
        self.loop.kill()
        self.loop = Loop(self._time.seconds)
        self.application = Application(lambda: Gateway(monotonic=self._time.seconds))
        self.loop.create_task(self.application.start())
        self._network.up.add(self.name)

    def arrive(self, call: Call) -> None:
        """A request has reached this gateway."""
        self._network.at_gateway.setdefault(self.name, []).append(call)
        self.loop.create_task(serve(self.application, self._network, call))

    def die(self) -> None:
        super().die()
        self.loop.kill()
        self._network.gateway_died(self.name)

    def close(self) -> None:
        super().close()
        self.loop.kill()


class SlowHolds(MemoryHolds):
    """Holds that take a moment, and sometimes fail. They outlive the agent, as files would."""

    def __init__(self, chance: random.Random, sleep: Callable[[float], Any]) -> None:
        super().__init__()
        self.failing = False
        self._chance = chance
        self._sleep = sleep

    async def bind(self, assignment: Assignment, atoms: Sequence[Atom]) -> Bound:
        """Hold, some time; a crash before or after finds it not held, or held and not told."""
        await self._sleep(self._chance.choice([0, 0, 0.5, 3]))
        if self.failing:
            raise BindFailed("simulated")
        bound = await super().bind(assignment, atoms)
        await self._sleep(self._chance.choice([0, 0, 0.5]))
        return bound

    def lose_all(self) -> None:
        """The machine booted again."""
        self._holds.clear()


class AgentProcess:
    """A node's agent: the real daemon over the simulated network. It never sees the database."""

    def __init__(self, member: Member, time: Time, network: Network, directory: Path) -> None:
        self.name = member.name
        self.member = member
        self.alive = False
        self.loop = Loop(time.seconds)
        # Not the scheduler's chance: how an agent spreads its retries must not hang on who ran.
        self._chance = random.Random(member.name)
        self.holds = SlowHolds(self._chance, asyncio.sleep)
        self._time = time
        self._network = network
        self._directory = directory

    def start(self) -> None:
        """Begin a life with the holds and the journal that are there."""
        self.alive = True
        self.loop.kill()
        self.loop = Loop(self._time.seconds)
        client = httpx2.AsyncClient(transport=Transport(self._network, self.name), trust_env=False)
        addresses = [f"http://{gateway}" for gateway in GATEWAYS]
        self._chance.shuffle(addresses)
        member = self.member
        session = Session(
            Link(addresses, client),
            Identity(member.node_id, member.key),
            About(
                boot_id=member.inventory.boot_id,
                agent_version="simulated",
                capabilities=("devices.limits",),
            ),
        )
        self.daemon = Daemon(
            session,
            inventory=member.inventory,
            holds=self.holds,
            journal=FileJournal(self._directory / self.name, durable=False),
            random=self._chance,
        )
        self.loop.create_task(self.daemon.run())

    def die(self) -> None:
        """End this life; what is on the disk stays."""
        self.alive = False
        self.loop.kill()

    def lose_journal(self) -> None:
        """The disk with the journal is replaced."""
        path = self._directory / self.name
        path.unlink(missing_ok=True)

    def settle(self) -> int:
        """Do all that can be done at this instant."""
        return self.loop.settle() if self.alive else 0

    def close(self) -> None:
        """The simulation is over."""
        self.loop.kill()


class Straggler(Process):
    """Somebody whose transaction stays open for long, behind the backs of all readers."""

    def begin(self, node_id: str, tenant_id: str, *, commit: bool) -> None:
        """Have a transaction that stays open until the strand is resumed."""
        strand = self.strands[""]

        def operation() -> None:
            with transaction.atomic():
                events.publish(
                    "node.labelled",
                    tenant_id=tenant_id,
                    subject=f"node/{node_id}",
                    data={"poolId": "straggler", "name": "straggler", "state": "ready"},
                )
                strand.point()
                if not commit:
                    transaction.set_rollback(True)

        strand.begin(operation)
