"""Which nodes are simulated, and what their agents need to begin (N3)."""

from collections.abc import Callable
from dataclasses import dataclass

from bettercompute.agent.inventory import HostInventory
from bettercompute.states import NodeState
from nodes import enrollment
from nodes.models import NodeInventory, NodeKey


@dataclass(frozen=True, slots=True)
class SimulatedNode:
    """A node with the host that its agent pretends to run on, and how it gets an identity."""

    node_id: str
    inventory: HostInventory
    enrolment_token: str | None


def prepare(*, count: int, kid_of: Callable[[str], str]) -> list[SimulatedNode]:
    """The first ``count`` nodes whose inventory is known; each without its key gets a token.

    ``kid_of`` tells which key the agent of a node will use.
    """
    stored = (
        NodeInventory.objects.exclude(node__state=NodeState.RETIRED)
        .order_by("node_id")
        .values_list("node_id", "body")[:count]
    )
    known = set(
        NodeKey.objects.filter(
            revoked_at=None, node_id__in=[node_id for node_id, _ in stored]
        ).values_list("node_id", "kid")
    )
    return [
        SimulatedNode(
            node_id=node_id,
            inventory=HostInventory.from_wire(body),
            enrolment_token=(
                None
                if (node_id, kid_of(node_id)) in known
                else enrollment.create(node_id=node_id).token
            ),
        )
        for node_id, body in stored
    ]
