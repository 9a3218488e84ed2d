"""Gateways, agents and a database that come and go, second by second, on simulated time.

What gateways write goes through the product's own functions; what each of them knows, who can
reach whom and when the ticks run is this model's. Time here is whole seconds since START.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from django.db import transaction

from bettercompute import clock as clock_module
from bettercompute.coordination import leases
from nodes import hearing, liveness, sessions
from nodes.models import Node, NodeCondition, NodeSession
from nodes.sessions import Heard, SessionToken
from tests.conftest import START

BEAT_SECONDS = 5
CALL_SECONDS = 5  # an agent's heartbeat
CUT_OFF_SECONDS = 60


@dataclass(eq=False)
class Gateway:
    """One gateway process and what is in its memory."""

    id: str
    began_at: int
    alive: bool = True
    connected: bool = True  # to the database
    told_at: int = 0
    heard: dict[str, int] = field(default_factory=dict)


@dataclass(eq=False)
class Agent:
    """One node's agent, and the gateways whose addresses it knows."""

    node: Node
    token: SessionToken
    gateways: list[str]
    current: int = 0
    talks: bool = True
    spoke_at: int = 0  # when a gateway last listened


class World:
    """Everything, at one second."""

    def __init__(self, *, beat_every: int = BEAT_SECONDS) -> None:
        self.beat_every = beat_every
        self.second = 0
        self.database_up = True
        self.tick_every: int | None = beat_every
        self.step = timedelta(0)  # how far the database's clock was stepped
        self.gateways: dict[str, Gateway] = {}
        self.agents: list[Agent] = []
        self.judged: Callable[[], None] = lambda: None  # called after each tick

    def gateway(self, name: str) -> Gateway:
        """Start a gateway at this address; one that was there before is forgotten."""
        made = Gateway(f"own_{name}_{self.second}", self.second, told_at=self.second)
        self.gateways[name] = made
        return made

    def agent(self, node: Node, *gateways: str) -> Agent:
        """An agent that has just said hello at the first of these gateways."""
        self._set_clock()
        token = SessionToken.mint(node.pk, 1)
        now = clock_module.now()
        NodeSession.objects.create(
            node=node,
            epoch=1,
            token_hash=token.hash,
            gateway_id=self.gateways[gateways[0]].id,
            connected_at=now,
            last_seen_at=now,
        )
        made = Agent(node, token, list(gateways), spoke_at=self.second)
        self.gateways[gateways[0]].heard[node.pk] = self.second
        self.agents.append(made)
        return made

    def run(self, seconds: int) -> None:
        """Let time pass."""
        for _ in range(seconds):
            self.second += 1
            for agent in self.agents:
                self._call(agent)
            for gateway in self.gateways.values():
                if gateway.alive and (self.second - gateway.began_at) % self.beat_every == 0:
                    self._tell(gateway)
            if self.tick_every is not None and self.second % self.tick_every == 0:
                self.tick()

    def tick(self) -> None:
        """Judge, if the database can be reached."""
        if self.database_up:
            self._set_clock()
            liveness.judge()
            self.judged()

    def condition(self, agent: Agent) -> str:
        """The one condition of the three that stands."""
        rows = NodeCondition.objects.filter(node=agent.node).values_list("type", flat=True)
        return ", ".join(sorted(rows))

    def up(self) -> bool:
        """Whether somebody listens now, and can tell."""
        return self.database_up and any(g.alive and g.connected for g in self.gateways.values())

    def _call(self, agent: Agent) -> None:
        """An agent calls in its turn; after a failure it tries the next address a second later."""
        if not agent.talks:
            return
        gateway = self.gateways[agent.gateways[agent.current]]
        if self.second - agent.spoke_at < CALL_SECONDS:
            return
        if self._listens(gateway, agent):
            agent.spoke_at = self.second
        else:
            agent.current = (agent.current + 1) % len(agent.gateways)

    def _listens(self, gateway: Gateway, agent: Agent) -> bool:
        if not gateway.alive:
            return False
        if agent.node.pk not in gateway.heard:
            if not (gateway.connected and self.database_up):
                return False
            self._set_clock()
            sessions.adopt(agent.token, gateway_id=gateway.id)
        gateway.heard[agent.node.pk] = self.second
        return self.second - gateway.told_at < CUT_OFF_SECONDS

    def _tell(self, gateway: Gateway) -> None:
        if not (gateway.connected and self.database_up):
            return
        self._set_clock()
        heard = [Heard(node_id, 1, at) for node_id, at in sorted(gateway.heard.items())]
        with transaction.atomic():
            sessions.flush(
                heard,
                gateway_id=gateway.id,
                since=gateway.began_at,
                monotonic=lambda: self.second,
            )
            leases.take(f"gateway:{gateway.id}", ttl_seconds=20, owner=gateway.id)
            hearing.beat(gateway.id)
        gateway.told_at = self.second

    def _set_clock(self) -> None:
        clock_module.set_sim_clock(START + timedelta(seconds=self.second) + self.step)
