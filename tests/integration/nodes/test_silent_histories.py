"""Histories at random: only silence makes a node unreachable, and it always does (C36, C38)."""

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bettercompute.coordination.models import Lease
from nodes.models import GatewayWatch, NodeSession
from tests.conftest import SimulatedClock
from tests.support import supply
from tests.support.silence import Agent, World

pytestmark = pytest.mark.django_db

STEPS = st.one_of(
    st.tuples(st.just("run"), st.integers(1, 90)),
    st.tuples(st.just("run"), st.integers(250, 420)),
    st.tuples(st.just("database"), st.booleans()),
    st.tuples(st.just("alive"), st.sampled_from(["a", "b"])),
    st.tuples(st.just("connected"), st.sampled_from(["a", "b"])),
    st.tuples(st.just("new"), st.sampled_from(["a", "b"])),
    st.tuples(st.just("ticks"), st.sampled_from([10, 17, 45, None])),
    st.tuples(st.just("step"), st.sampled_from([7, 30, 3_600])),
)


def apply_step(world: World, step: tuple[str, object]) -> None:
    match step:
        case ("run", int(seconds)):
            world.run(seconds)
        case ("database", bool(is_up)):
            world.database_up = is_up
        case ("alive", str(name)):
            world.gateways[name].alive = not world.gateways[name].alive
        case ("connected", str(name)):
            world.gateways[name].connected = not world.gateways[name].connected
        case ("new", str(name)):
            world.gateway(name)
        case ("ticks", every):
            assert every is None or isinstance(every, int)
            world.tick_every = every
        case ("step", int(seconds)):
            world.step += timedelta(seconds=seconds)


class Watcher:
    """Counts, for each agent, the seconds in which somebody listened and it was not heard."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.unheard: dict[str, int] = {}
        self.before: dict[str, str] = {}

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            World.run(self.world, 1)
            for agent in self.world.agents:
                key = agent.node.pk
                if agent.spoke_at == self.world.second:
                    self.unheard[key] = 0
                elif self.world.up():
                    self.unheard[key] = self.unheard.get(key, 0) + 1

    def judged(self) -> None:
        for agent in self.world.agents:
            after = self.world.condition(agent)
            if after == "Unreachable" != self.before.get(agent.node.pk):
                unheard = self.unheard.get(agent.node.pk, 0)
                assert unheard >= 15, f"{unheard} s of silence made it unreachable"
            self.before[agent.node.pk] = after


def _judge_a_history(steps: list[tuple[str, object]]) -> None:
    for table in (GatewayWatch, NodeSession, Lease):
        table.objects.all().delete()  # of the example before
    world = World(beat_every=10)  # half as often as in life, to be quick about it
    world.gateway("a")
    world.gateway("b")
    talking = world.agent(supply.node(gpus=1), "a", "b")
    quiet = world.agent(supply.node(gpus=1), "b", "a")
    watcher = Watcher(world)
    world.judged = watcher.judged
    world.run = watcher.run  # type: ignore[method-assign]
    world.run(10)
    quiet.talks = False
    for step in steps:
        apply_step(world, step)
    _comes_to_rest(world, talking=talking, quiet=quiet)


def _comes_to_rest(world: World, *, talking: Agent, quiet: Agent) -> None:
    """Once everything works again, who talks is connected and who does not is unreachable."""
    world.database_up, world.tick_every = True, 10
    for name, gateway in list(world.gateways.items()):
        gateway.connected = True
        if not gateway.alive:
            world.gateway(name)
    world.run(35)
    assert world.condition(talking) == "Connected"
    world.run(400)
    assert world.condition(talking) == "Connected"
    assert world.condition(quiet) == "Unreachable"


@pytest.mark.rule("C36")
@pytest.mark.rule("C38")
@settings(
    max_examples=4,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=st.lists(STEPS, max_size=10))
def test_whatever_fails_only_silence_makes_a_node_unreachable_and_it_always_does(
    clock: SimulatedClock, steps: list[tuple[str, object]]
) -> None:
    _judge_a_history(steps)
