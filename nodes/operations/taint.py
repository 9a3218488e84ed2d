"""Taints: only work that tolerates each of them is placed on a node (N18)."""

from collections.abc import Mapping, Sequence

from bettercompute.iam.callers import Caller
from nodes import eligibility, queries
from nodes.queries import Occupant


def preview(caller: Caller, *, node_id: str) -> list[Occupant]:
    """What stays on the node whatever its taints."""
    queries.access_node(caller, node_id, action=queries.MANAGE)
    return queries.occupants(node_id)


def apply(
    caller: Caller,
    *,
    node_id: str,
    taints: Sequence[Mapping[str, str]],
    if_match: frozenset[int] | None = None,
) -> int:
    """Replace the node's taints. Answers its version.

    Raises:
        errors.InvalidInput: a taint is malformed.
    """
    queries.access_node(caller, node_id, action=queries.MANAGE)
    return eligibility.taint(node_id, taints, if_match=if_match)
