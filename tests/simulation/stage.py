"""Everybody and everything that takes part in one simulation."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.simulation import actors
from tests.simulation.actors import (
    AgentProcess,
    GatewayProcess,
    Process,
    Sink,
    Straggler,
    WorkerProcess,
)
from tests.simulation.database import Outage
from tests.simulation.entropy import Time
from tests.simulation.network import Network
from tests.simulation.world import Member, World


class Stage:
    """The actors, and what is between them."""

    def __init__(self, time: Time, made: World, directory: Path, closing: ExitStack) -> None:
        self.time = time
        self.operations = made.operations
        self.network = Network()
        self.outage = Outage()
        self.sinks = [Sink("sink-1"), Sink("sink-2")]
        self.web = [Process(f"web-{n}", self.outage) for n in (1, 2, 3)]
        self.operator = Process("operator", self.outage)
        self.workers = [WorkerProcess(f"worker-{n}", self.outage, self.sinks) for n in (1, 2)]
        self.gateways = {
            name: GatewayProcess(name, self.outage, time, self.network) for name in actors.GATEWAYS
        }
        self.straggler = Straggler("straggler", self.outage)
        self.agents = self._agents(made.members, directory)
        everybody: list[Process] = [*self.web, self.operator, *self.workers]
        everybody += [*self.gateways.values(), self.straggler]
        self.processes = {process.name: process for process in everybody}
        for actor in [*everybody, *self.agents.values()]:
            closing.callback(actor.close)
            actor.start()

    def _agents(self, members: Sequence[Member], directory: Path) -> dict[str, AgentProcess]:
        return {
            member.name: AgentProcess(member, self.time, self.network, directory)
            for member in members
        }

    def candidates(self) -> Mapping[str, Sequence[str]]:
        """Who may be chosen, by the kind of choice; other kinds have but one actor."""
        workers, agents = [process.name for process in self.workers], list(self.agents)
        return {
            "web": [process.name for process in self.web],
            "worker": workers,
            "pulse": workers,
            "gateway": list(self.gateways),
            "agent": agents,
            "silence": agents,
            "holds": agents,
            "kill": [*self.processes, *agents],
            "sink": [sink.name for sink in self.sinks],
        }

    def has_written(self) -> bool:
        """Whether anybody has changed the database since this was last asked."""
        wrote = False
        for process in self.processes.values():
            for strand in process.strands.values():
                wrote |= strand.wrote
                strand.wrote = False
        return wrote
