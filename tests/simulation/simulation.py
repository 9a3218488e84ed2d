"""One seeded run: a scheduler chooses, one process takes a step, every promise is checked.

A *choice* names an actor and carries a seed of its own, from which all chance of its step comes. So
a history can be played again with choices left out: the others still mean the same.
"""

import hashlib
import logging
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from django.db import connection

from bettercompute import clock, errors, failpoints
from bettercompute.coordination import reconnecting
from bettercompute.failpoints import Failpoint
from tests.simulation import actors, baton, entropy, rest, world
from tests.simulation.actors import (
    AgentProcess,
    GatewayProcess,
    Process,
    Sink,
    Straggler,
    WorkerProcess,
)
from tests.simulation.baton import Fault, Planned, Ran
from tests.simulation.database import Outage, is_lost_database
from tests.simulation.entropy import Chance, Time
from tests.simulation.network import Call, Network
from tests.simulation.promises import Promises, Violation, is_expected

FULL_CHECK_EVERY = 25
FAILPOINT_WEIGHT = 12  # they stand where two transactions belong together: others come in between
FAULTY = 0.12  # how often something goes wrong in a step
FAULT_AT = (1, 1, 2, 3, 4, 5, 7, 10, 14)  # the statement at which it does

# How often which actor is chosen.
WEIGHTS = {
    "web": 32,
    "operator": 3,
    "worker": 22,
    "pulse": 4,
    "gateway": 14,
    "network": 18,
    "agent": 5,
    "clock": 12,
    "kill": 3,
    "silence": 0.7,
    "outage": 0.7,
    "straggler": 4,
    "sink": 0.4,
    "holds": 0.4,
}
MOODS = (0.3, 1, 1, 1, 3)  # by what a seed may multiply each of these
TENANT_VERBS = {"create": 12, "retry": 2, "release": 9, "cancel": 3, "preview": 1}
OPERATOR_VERBS = {"cordon": 3, "taint": 1, "quarantine": 1, "mode": 2, "quota": 1, "shrink": 1}
POINTS = (1, 2, 4, 7, 12, 20, baton.TO_THE_END)
SECONDS = (0.2, 0.5, 1, 1, 2, 2, 3, 3, 5, 5, 5, 8, 12, 16, 16, 25, 60, 60, 320, 1_300)


@dataclass(frozen=True, slots=True)
class Choice:
    """Who takes the next step; the seed decides how."""

    kind: str
    actor: str
    seed: int
    faulty: bool = False

    def __str__(self) -> str:
        return f"{self.kind}:{self.actor}:{self.seed}{'!' if self.faulty else ''}"

    @classmethod
    def parse(cls, text: str) -> "Choice":
        """A choice from its text."""
        kind, actor, seed = text.split(":")
        return cls(kind, actor, int(seed.rstrip("!")), faulty=seed.endswith("!"))


@dataclass(slots=True)
class Result:
    """What a run came to."""

    seed: int
    choices: list[Choice] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    failure: str | None = None
    rested: bool = False  # whether it came as far as coming to rest

    @property
    def steps(self) -> int:
        """How many choices were played."""
        return len(self.choices)

    @property
    def history(self) -> str:
        """The hash of all that happened."""
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()

    @property
    def kind(self) -> str:
        """What sort of failure it is: two runs that fail alike have the same."""
        return (self.failure or "").partition(":")[0]


class Simulation:
    """All processes of one run. Use once. Weights other than a seed's own are for controls."""

    def __init__(self, seed: int, *, weights: Mapping[str, float] | None = None) -> None:
        self.result = Result(seed)
        self._weights = weights
        self.time = Time()
        self.chance = Chance(self.time)
        self.network = Network()
        self.outage = Outage()
        self.sinks = [Sink("sink-1"), Sink("sink-2")]
        self._closing = ExitStack()
        self._ending: list[tuple[int, Callable[[], object]]] = []

    # --- the whole run --------------------------------------------------------------------------

    def run(
        self, steps: int, *, replay: Sequence[Choice] | None = None, rests: bool = True
    ) -> Result:
        """Play so many steps, or these choices; then let everything come to rest, if asked."""
        with self._closing:
            self._open()
            try:
                self._warm_up()
                for choice in self._chosen(steps) if replay is None else replay:
                    self._step(choice)
                if rests:
                    self.result.rested = True
                    rest.come_to_rest(self)
            except Violation as violation:
                self.result.failure = str(violation)
                self.tell(f"BROKEN {violation}")
        return self.result

    def _open(self) -> None:
        self.chance.random.seed(f"world {self.result.seed}")
        self._closing.enter_context(entropy.controlled(self.time, self.chance))
        made = world.make_anew()
        self.operations = made.operations
        directory = Path(self._closing.enter_context(tempfile.TemporaryDirectory()))
        self._make_actors(made.members, directory)
        self.promises = Promises(self.processes.values(), self.agents.values(), self.sinks)
        root = logging.getLogger()
        root.addHandler(self.promises.mistakes)
        self._closing.callback(root.removeHandler, self.promises.mistakes)
        self._closing.callback(logging.disable, logging.root.manager.disable)
        logging.disable(logging.WARNING)  # what is worse is a mistake; the rest only costs time
        for point in Failpoint:
            failpoints.arm(point, _at_failpoint)
        self._closing.callback(failpoints.disarm)

    def _make_actors(self, members: Sequence[world.Member], directory: Path) -> None:
        self.web = [Process(f"web-{n}", self.outage) for n in (1, 2, 3)]
        self.operator = Process("operator", self.outage)
        self.workers = [WorkerProcess(f"worker-{n}", self.outage, self.sinks) for n in (1, 2)]
        self.gateways = {
            name: GatewayProcess(name, self.outage, self.time, self.network)
            for name in actors.GATEWAYS
        }
        self.straggler = Straggler("straggler", self.outage)
        self.agents = {
            member.name: AgentProcess(member, self.time, self.network, directory)
            for member in members
        }
        everybody: list[Process] = [*self.web, self.operator, *self.workers]
        everybody += [*self.gateways.values(), self.straggler]
        self.processes = {process.name: process for process in everybody}
        for actor in [*everybody, *self.agents.values()]:
            self._closing.callback(actor.close)
            actor.start()

    def _warm_up(self) -> None:
        for _ in range(3):
            rest.turn(self)
            self.time.advance(1)

    # --- choosing -------------------------------------------------------------------------------

    def _chosen(self, steps: int) -> Iterator[Choice]:
        """Choices as the seed decides; it also has moods: one is all clock, one all network."""
        rng = random.Random(f"choices {self.result.seed}")
        moods = {kind: weight * rng.choice(MOODS) for kind, weight in WEIGHTS.items()}
        weights = self._weights or moods
        for _ in range(steps):
            kind = rng.choices(list(weights), list(weights.values()))[0]
            actor = rng.choice(self._candidates(kind))
            yield Choice(kind, actor, rng.getrandbits(48), rng.random() < FAULTY)

    def _candidates(self, kind: str) -> list[str]:
        workers, agents = [process.name for process in self.workers], list(self.agents)
        known = {
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
        return known.get(kind, [kind])

    # --- one step -------------------------------------------------------------------------------

    def _step(self, choice: Choice) -> None:
        rng = random.Random(choice.seed)
        self.chance.random.seed(choice.seed)
        self.result.choices.append(choice)
        self._end_what_is_over()
        act: Callable[[Choice, random.Random], str] = getattr(self, f"_{choice.kind}")
        told = act(choice, rng)
        wrote = self._has_written()
        changes = self.promises.after_step(wrote=wrote)
        at = f"{self.time.seconds() - 1_000:.1f}"
        self.tell(f"{self.result.steps:4} +{at} {choice.actor}: {told}", *changes)
        if self.result.steps % FULL_CHECK_EVERY == 0:
            self.promises.all(self.operations.acknowledged)

    def tell(self, line: str, *more: str) -> None:
        """Write a line of the history."""
        self.result.lines.append(" | ".join([line, *more]))

    def _has_written(self) -> bool:
        wrote = False
        for process in self.processes.values():
            for strand in process.strands.values():
                wrote |= strand.wrote
                strand.wrote = False
        return wrote

    def go_on(
        self, process: Process, part: str, choice: Choice | None, rng: random.Random
    ) -> tuple[Ran, str]:
        """Let a strand go on, perhaps into a fault; answers what came of it, in words."""
        planned = None
        points = baton.TO_THE_END
        if choice is not None:
            points = rng.choice(POINTS)
            if choice.faulty:
                planned = Planned(rng.choice(list(Fault)), rng.choice(FAULT_AT))
                points = max(points, 4)
        strand = process.strands[part]
        strand.faults_met.clear()
        ran = process.run(part, points=points, planned=planned)
        told = self._outcome(process, ran)
        if strand.faults_met:
            told += f" ({', '.join(strand.faults_met)})"
        return ran, told

    def _outcome(self, process: Process, ran: Ran) -> str:
        if ran.paused:
            return "…"
        if ran.died:
            process.die()
            return "died"
        if ran.error is None:
            return "done" if ran.answer is None else f"done: {ran.answer}"
        if is_lost_database(ran.error) or isinstance(ran.error, errors.Unavailable):
            return "unknown: the database is away"
        if is_expected(ran.error):
            return f"refused: {getattr(ran.error, 'code', type(ran.error).__name__)}"
        text = f"unexpected: {process.name}: {type(ran.error).__name__}: {ran.error}"
        raise Violation(text) from ran.error

    def _revived(self, process: Process | AgentProcess) -> bool:
        if process.alive:
            return False
        process.start()
        return True

    # --- what each kind of choice does ----------------------------------------------------------

    def _web(self, choice: Choice, rng: random.Random) -> str:
        return self._verb(choice, rng, TENANT_VERBS)

    def _operator(self, choice: Choice, rng: random.Random) -> str:
        return self._verb(choice, rng, OPERATOR_VERBS)

    def _verb(self, choice: Choice, rng: random.Random, verbs: dict[str, int]) -> str:
        process = self.processes[choice.actor]
        if self._revived(process):
            return "started"
        verb = "…"
        if process.idle:
            verb = rng.choices(list(verbs), list(verbs.values()))[0]
            seed, now_ms = rng.getrandbits(48), clock.to_ms(self.time.now)
            self._begin(process, getattr(self.operations, verb), random.Random(seed), now_ms)
        return f"{verb} {self.go_on(process, '', choice, rng)[1]}"

    def _begin(self, process: Process, verb: Callable[..., Any], *arguments: Any) -> None:
        def operation() -> Any:
            try:
                return verb(*arguments)
            finally:
                reconnecting.drop_if_broken()  # as at the end of every request

        process.strands[""].begin(operation)

    def _worker(self, choice: Choice, rng: random.Random) -> str:
        process = self.processes[choice.actor]
        assert isinstance(process, WorkerProcess)
        if self._revived(process):
            return "started"
        assert process.worker is not None
        verb = "…"
        if not process.strands[""].paused:
            stops = rng.random() < 0.02 and process.idle
            verb = "stop" if stops else rng.choice(["tick", "tick", "tick", "look"])
            process.strands[""].begin(getattr(process.worker, verb))
        ran, told = self.go_on(process, "", choice, rng)
        if verb == "stop" and not ran.paused:
            process.alive = False
        return f"{verb} {told}"

    def _pulse(self, choice: Choice, rng: random.Random) -> str:
        process = self.processes[choice.actor]
        assert isinstance(process, WorkerProcess)
        if not process.alive or process.worker is None:
            return "is dead"
        if not process.strands[".pulse"].paused:
            process.strands[".pulse"].begin(process.worker.holdings.refresh)
        return f"pulse {self.go_on(process, '.pulse', choice, rng)[1]}"

    def _gateway(self, choice: Choice, rng: random.Random) -> str:
        process = self.gateways[choice.actor]
        if self._revived(process):
            return "started"
        if process.idle:
            process.strands[""].begin(process.loop.settle)
        return self.go_on(process, "", choice, rng)[1]

    def _agent(self, choice: Choice, rng: random.Random) -> str:
        agent = self.agents[choice.actor]
        if self._revived(agent):
            return "started"
        return f"ran {agent.settle()}"

    def _network(self, choice: Choice, rng: random.Random) -> str:
        told = []
        for _ in range(rng.choice([1, 1, 2, 5, 12])):
            waiting: list[Call] = [*self.network.requests, *self.network.answers]
            if not waiting:
                break
            told.append(self._deliver(rng.choice(waiting), rng, faulty=choice.faulty))
        return ", ".join(told) or "nothing is on its way"

    def _deliver(self, call: Call, rng: random.Random, *, faulty: bool) -> str:
        what = rng.choice(["lost", "lost", "twice"]) if faulty else ""
        name = f"{call.path} of {call.agent}"
        if call in self.network.requests:
            return f"{name} {self.arrive(call, what)}"
        if what == "lost":
            self.network.answers.remove(call)
            return f"answer to {name} lost"
        self.network.deliver(call)
        self.agents[call.agent].settle()
        return f"answer to {name}"

    def arrive(self, call: Call, what: str = "") -> str:
        """A request reaches its gateway; or it does not, or it does twice."""
        self.network.requests.remove(call)
        if what == "lost":
            return "lost"
        gateway = self.gateways[call.gateway]
        for _ in range(2 if what == "twice" else 1):
            gateway.arrive(call)
        return f"→ {call.gateway} {what}"

    def _clock(self, choice: Choice, rng: random.Random) -> str:
        seconds = rng.choice(SECONDS)
        self.time.advance(seconds)
        return f"{seconds} s pass"

    def _kill(self, choice: Choice, rng: random.Random) -> str:
        if choice.actor in self.agents:
            return self._kill_agent(self.agents[choice.actor], rng)
        process = self.processes[choice.actor]
        if not process.alive:
            return "was dead"
        process.die()
        return "killed"

    def _kill_agent(self, agent: AgentProcess, rng: random.Random) -> str:
        if agent.alive:
            agent.die()
        match rng.randrange(6):
            case 0:
                agent.lose_journal()
                return "killed, and its journal is gone"
            case 1:
                agent.holds.lose_all()
                return "killed, and its machine booted again"
        return "killed"

    def _silence(self, choice: Choice, rng: random.Random) -> str:
        self.network.silent.add(choice.actor)
        return self._for_a_while(rng, "silent", lambda: self.network.silent.discard(choice.actor))

    def _holds(self, choice: Choice, rng: random.Random) -> str:
        holds = self.agents[choice.actor].holds
        holds.failing = True
        return self._for_a_while(rng, "unable to bind", lambda: setattr(holds, "failing", False))

    def _outage(self, choice: Choice, rng: random.Random) -> str:
        self.outage.away = True
        back = partial(setattr, self.outage, "away", False)
        return self._for_a_while(rng, "no database", back, most=12)

    def _sink(self, choice: Choice, rng: random.Random) -> str:
        sink = next(each for each in self.sinks if each.name == choice.actor)
        sink.refuses = True
        return self._for_a_while(rng, "refusing", lambda: setattr(sink, "refuses", False))

    def _for_a_while(
        self, rng: random.Random, what: str, undo: Callable[[], object], *, most: int = 60
    ) -> str:
        steps = rng.randint(2, most)
        self._ending.append((self.result.steps + steps, undo))
        return f"{what} for {steps} steps"

    def _end_what_is_over(self) -> None:
        for until, undo in self._ending:
            if until == self.result.steps:
                undo()

    def _straggler(self, choice: Choice, rng: random.Random) -> str:
        process = self.straggler
        self._revived(process)
        if process.idle:
            node = rng.choice(self.operations.nodes)
            tenant = rng.choice(self.operations.callers).tenant_id
            process.begin(node.pk, tenant, commit=rng.random() < 0.7)
            ran = process.run(points=2)
        else:
            ran = process.run()
        return f"straggles {self._outcome(process, ran)}"


def _at_failpoint() -> None:
    """A place that the product names: processes may die here, and outside transactions wait."""
    strand = baton.current()
    if strand is None:
        return
    if strand.fault() in (Fault.DIE_BEFORE, Fault.DIE_AFTER):
        strand.die()
    if not connection.in_atomic_block:
        strand.point(weight=FAILPOINT_WEIGHT)
