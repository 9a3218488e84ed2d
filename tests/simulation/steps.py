"""What a chosen actor does in its step, and what of it goes wrong."""

import random
from collections.abc import Callable
from functools import partial
from typing import Any

from django.db import connection

from bettercompute import clock, errors
from bettercompute.coordination import reconnecting
from tests.simulation import baton
from tests.simulation.actors import AgentProcess, Process, WorkerProcess
from tests.simulation.baton import Fault, Planned, Ran
from tests.simulation.choices import Choice
from tests.simulation.database import is_lost_database
from tests.simulation.network import Call
from tests.simulation.promises import Violation, is_expected
from tests.simulation.stage import Stage

FAILPOINT_WEIGHT = 12  # they stand where two transactions belong together: others come in between
FAULT_AT = (1, 1, 2, 3, 4, 5, 7, 10, 14)  # the statement at which it does
POINTS = (1, 2, 4, 7, 12, 20, baton.TO_THE_END)
SECONDS = (0.2, 0.5, 1, 1, 2, 2, 3, 3, 5, 5, 5, 8, 12, 16, 16, 25, 60, 60, 320, 1_300)
TENANT_VERBS = {
    "create": 12,
    "retry": 2,
    "release": 7,
    "cancel": 2,
    "extend": 4,
    "renew": 2,
    "preview": 1,
    "repeat": 1,
    "cease": 1,
}
OPERATOR_VERBS = {
    "cordon": 3,
    "taint": 1,
    "quarantine": 1,
    "mode": 2,
    "quota": 1,
    "shrink": 1,
    "placer": 1,
}


class Steps:
    """Plays choices on a stage; each kind of choice has a method of its name."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self._number = 0
        self._ending: list[tuple[int, Callable[[], object]]] = []

    def play(self, choice: Choice) -> str:
        """Take one step; answers what happened, in words. Raises: Violation."""
        self._number += 1
        self._end_what_is_over()
        act: Callable[[Choice, random.Random], str] = getattr(self, f"_{choice.kind}")
        return act(choice, random.Random(choice.seed))

    def go_on(self, process: Process, part: str, choice: Choice | None, rng: random.Random) -> str:
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
        return told

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

    def _web(self, choice: Choice, rng: random.Random) -> str:
        return self._verb(choice, rng, TENANT_VERBS)

    def _operator(self, choice: Choice, rng: random.Random) -> str:
        return self._verb(choice, rng, OPERATOR_VERBS)

    def _verb(self, choice: Choice, rng: random.Random, verbs: dict[str, int]) -> str:
        process = self.stage.processes[choice.actor]
        if self._revived(process):
            return "started"
        verb = "…"
        if process.idle:
            verb = rng.choices(list(verbs), list(verbs.values()))[0]
            seed, now_ms = rng.getrandbits(48), clock.to_ms(self.stage.time.now)
            self._begin(process, getattr(self.stage.operations, verb), random.Random(seed), now_ms)
        return f"{verb} {self.go_on(process, '', choice, rng)}"

    def _begin(self, process: Process, verb: Callable[..., Any], *arguments: Any) -> None:
        def operation() -> Any:
            try:
                return verb(*arguments)
            finally:
                reconnecting.drop_if_broken()  # as at the end of every request

        process.strands[""].begin(operation)

    def _worker(self, choice: Choice, rng: random.Random) -> str:
        process = self.stage.processes[choice.actor]
        assert isinstance(process, WorkerProcess)
        if self._revived(process):
            return "started"
        assert process.worker is not None
        verb = "…"
        if not process.strands[""].paused:
            stops = rng.random() < 0.02 and process.idle
            verb = "stop" if stops else rng.choice(["tick", "tick", "tick", "look"])
            process.strands[""].begin(process.stop if stops else getattr(process.worker, verb))
        return f"{verb} {self.go_on(process, '', choice, rng)}"

    def _pulse(self, choice: Choice, rng: random.Random) -> str:
        process = self.stage.processes[choice.actor]
        assert isinstance(process, WorkerProcess)
        if not process.alive or process.worker is None:
            return "is dead"
        if not process.strands[".pulse"].paused:
            process.strands[".pulse"].begin(process.worker.holdings.refresh)
        return f"pulse {self.go_on(process, '.pulse', choice, rng)}"

    def _gateway(self, choice: Choice, rng: random.Random) -> str:
        process = self.stage.gateways[choice.actor]
        if self._revived(process):
            return "started"
        if process.idle:
            process.strands[""].begin(process.loop.settle)
        return self.go_on(process, "", choice, rng)

    def _agent(self, choice: Choice, rng: random.Random) -> str:
        agent = self.stage.agents[choice.actor]
        if self._revived(agent):
            return "started"
        return f"ran {agent.settle()}"

    def _network(self, choice: Choice, rng: random.Random) -> str:
        told = []
        for _ in range(rng.choice([1, 1, 2, 5, 12])):
            waiting: list[Call] = [*self.stage.network.requests, *self.stage.network.answers]
            if not waiting:
                break
            told.append(self._deliver(rng.choice(waiting), rng, faulty=choice.faulty))
        return ", ".join(told) or "nothing is on its way"

    def _deliver(self, call: Call, rng: random.Random, *, faulty: bool) -> str:
        what = rng.choice(["lost", "lost", "twice"]) if faulty else ""
        name = f"{call.path} of {call.agent}"
        if call in self.stage.network.requests:
            return f"{name} {self.arrive(call, what)}"
        if what == "lost":
            self.stage.network.answers.remove(call)
            return f"answer to {name} lost"
        self.stage.network.deliver(call)
        self.stage.agents[call.agent].settle()
        return f"answer to {name}"

    def arrive(self, call: Call, what: str = "") -> str:
        """A request reaches its gateway; or it does not, or it does twice."""
        self.stage.network.requests.remove(call)
        if what == "lost":
            return "lost"
        gateway = self.stage.gateways[call.gateway]
        for _ in range(2 if what == "twice" else 1):
            gateway.arrive(call)
        return f"→ {call.gateway} {what}"

    def _clock(self, choice: Choice, rng: random.Random) -> str:
        seconds = rng.choice(SECONDS)
        self.stage.time.advance(seconds)
        return f"{seconds} s pass"

    def _kill(self, choice: Choice, rng: random.Random) -> str:
        if choice.actor in self.stage.agents:
            return self._kill_agent(self.stage.agents[choice.actor], rng)
        process = self.stage.processes[choice.actor]
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
        self.stage.network.silent.add(choice.actor)
        return self._for_a_while(
            rng, "silent", lambda: self.stage.network.silent.discard(choice.actor)
        )

    def _holds(self, choice: Choice, rng: random.Random) -> str:
        holds = self.stage.agents[choice.actor].holds
        holds.failing = True
        return self._for_a_while(rng, "unable to bind", lambda: setattr(holds, "failing", False))

    def _outage(self, choice: Choice, rng: random.Random) -> str:
        self.stage.outage.away = True
        back = partial(setattr, self.stage.outage, "away", False)
        return self._for_a_while(rng, "no database", back, most=12)

    def _sink(self, choice: Choice, rng: random.Random) -> str:
        sink = next(each for each in self.stage.sinks if each.name == choice.actor)
        sink.refuses = True
        return self._for_a_while(rng, "refusing", lambda: setattr(sink, "refuses", False))

    def _for_a_while(
        self, rng: random.Random, what: str, undo: Callable[[], object], *, most: int = 60
    ) -> str:
        steps = rng.randint(2, most)
        self._ending.append((self._number + steps, undo))
        return f"{what} for {steps} steps"

    def _end_what_is_over(self) -> None:
        for until, undo in self._ending:
            if until == self._number:
                undo()

    def _straggler(self, choice: Choice, rng: random.Random) -> str:
        process = self.stage.straggler
        self._revived(process)
        if process.idle:
            node = rng.choice(self.stage.operations.nodes)
            tenant = rng.choice(self.stage.operations.callers).tenant_id
            process.begin(node.pk, tenant, commit=rng.random() < 0.7)
            ran = process.run(points=2)
        else:
            ran = process.run()
        return f"straggles {self._outcome(process, ran)}"


def at_failpoint() -> None:
    """A place that the product names: processes may die here, and outside transactions wait."""
    strand = baton.current()
    if strand is None:
        return
    if strand.fault() in (Fault.DIE_BEFORE, Fault.DIE_AFTER):
        strand.die()
    if not connection.in_atomic_block:
        strand.point(weight=FAILPOINT_WEIGHT)
