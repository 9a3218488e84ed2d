"""Faults stop, time passes, and everything comes to rest; then the promises of liveness are due."""

import random
from typing import TYPE_CHECKING

from bettercompute.coordination import workqueue
from reservations import queries
from tests.simulation.actors import Process
from tests.simulation.promises import Violation

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

TURNS_MAX = 60
QUIET_TURNS = 3
SECONDS_A_TURN = 8.0  # the last of so many turns comes after every lease of the dead
DELIVERIES_MAX = 500
LATER_SECONDS = 7 * 3_600  # everything that anybody asked for would be over


def come_to_rest(simulation: "Simulation") -> None:
    """Stop the faults, and see that all comes to a good end. Raises: Violation."""
    heal(simulation)
    settle(simulation)
    simulation.promises.all()
    simulation.promises.at_rest()
    simulation.tell("at rest")
    _nobody_was_forgotten(simulation)
    _release_all(simulation)
    settle(simulation)
    simulation.time.advance(LATER_SECONDS)
    settle(simulation)
    simulation.promises.all()
    simulation.promises.at_rest()
    simulation.promises.ended()
    simulation.tell("ended")


def heal(simulation: "Simulation") -> None:
    """Everybody lives, and what was under way goes on to its end."""
    simulation.stage.outage.away = False
    simulation.stage.network.silent.clear()
    for sink in simulation.stage.sinks:
        sink.refuses = False
    for agent in simulation.stage.agents.values():
        agent.holds.failing = False
    for process in simulation.stage.processes.values():
        for part, strand in process.strands.items():
            if strand.paused:
                told = simulation.steps.go_on(process, part, None, random.Random(0))
                simulation.tell(f"{process.name}{part} {told}")
    for actor in [*simulation.stage.processes.values(), *simulation.stage.agents.values()]:
        if not actor.alive:
            actor.start()


def settle(simulation: "Simulation") -> None:
    """Turns of everybody, and time, until nothing happens any more. Raises: Violation."""
    quiet = 0
    for _ in range(TURNS_MAX):
        happened = turn(simulation)
        quiet = 0 if happened else quiet + 1
        if quiet == QUIET_TURNS:
            return
        simulation.time.advance(SECONDS_A_TURN)
    raise Violation(f"restless: after {TURNS_MAX} turns something still happens: {happened}")


def turn(simulation: "Simulation") -> list[str]:
    """Everybody does what there is to do now; answers what changed."""
    simulation.chance.random.seed(f"{simulation.time.seconds()} {len(simulation.result.lines)}")
    for agent in simulation.stage.agents.values():
        agent.settle()
    _exchange(simulation)
    for process in simulation.stage.workers:
        assert process.worker is not None
        _run(simulation, process, process.worker.tick)
    simulation.stage.has_written()
    changes = simulation.promises.after_step(wrote=True)
    if changes:
        simulation.tell(f"     +{simulation.time.seconds() - 1_000:.1f} all", *changes)
    return [*changes, *_due()]


def _exchange(simulation: "Simulation") -> None:
    """Every message arrives, in order, until none is left but long polls."""
    network = simulation.stage.network
    for _ in range(DELIVERIES_MAX):
        for call in list(network.requests):
            simulation.steps.arrive(call)
        for gateway in simulation.stage.gateways.values():
            if gateway.loop.busy():
                _run(simulation, gateway, gateway.loop.settle)
        if not network.answers:
            return
        for call in list(network.answers):
            network.deliver(call)
            simulation.stage.agents[call.agent].settle()
    raise Violation("restless: agents and gateways never stop talking")


def _run(simulation: "Simulation", process: Process, operation: object) -> None:
    process.strands[""].begin(operation)  # type: ignore[arg-type]
    ran = process.run()
    if ran.error is not None:
        raise Violation(f"unexpected: {process.name}: {ran.error!r}") from ran.error


def _due() -> list[str]:
    count, _ = workqueue.lag()
    return [f"{count} rows are due"] if count else []


def _release_all(simulation: "Simulation") -> None:
    process = simulation.stage.web[0]
    _run(simulation, process, simulation.stage.operations.release_all)


def _nobody_was_forgotten(simulation: "Simulation") -> None:
    """A look that nobody asked for finds nothing to do: else a wake-up was lost (C25, C26)."""
    before = dict(simulation.promises.rows)
    keys = sorted(queries.live_keys())
    process = simulation.stage.workers[0]
    assert process.worker is not None
    worker = process.worker

    def look() -> None:
        workqueue.enqueue_many([("reservation", key, None) for key in keys])
        worker.look()

    _run(simulation, process, look)
    simulation.promises.after_step(wrote=True)
    after = simulation.promises.rows
    moved = [
        f"forgotten: {key} was {before[kind, key][0]}, and only a resync would have woken it"
        for (kind, key), value in after.items()
        if kind == "reservation" and before.get((kind, key), value)[0] != value[0]
    ]
    if moved:
        raise Violation("\n".join(sorted(moved)))
