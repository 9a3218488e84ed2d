"""Cordon: no new placements on a node; what is there stays until it ends (N18)."""

from bettercompute.iam.callers import Caller
from bettercompute.wire import nodes as wire
from nodes import eligibility, queries


def preview(caller: Caller, *, node_id: str) -> wire.NodeOperation:
    """What a cordon, or its end, would leave in place."""
    place = queries.access_node(caller, node_id, action=queries.MANAGE)
    effect = queries.effect(node_id)
    return wire.NodeOperation(node=queries.show(place), applied=False, effect=effect)


def apply(
    caller: Caller, *, node_id: str, if_match: frozenset[int] | None = None
) -> wire.NodeOperation:
    """Take no new placements. Repeating it changes nothing."""
    return _set(caller, node_id, cordoned=True, if_match=if_match)


def end(
    caller: Caller, *, node_id: str, if_match: frozenset[int] | None = None
) -> wire.NodeOperation:
    """Take new placements again, and let those who wait for the pool be tried at once."""
    return _set(caller, node_id, cordoned=False, if_match=if_match)


def _set(
    caller: Caller, node_id: str, *, cordoned: bool, if_match: frozenset[int] | None
) -> wire.NodeOperation:
    place = queries.access_node(caller, node_id, action=queries.MANAGE)
    change = eligibility.cordon if cordoned else eligibility.uncordon
    change(node_id, if_match=if_match)
    effect = queries.effect(node_id)
    return wire.NodeOperation(node=queries.show(place), applied=True, effect=effect)
