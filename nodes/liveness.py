"""Silence of nodes, judged: Connected, Disconnected, Unreachable (C36, C38).

When an agent stops talking a condition changes, not ownership. A node is judged only while some
gateway beats, so an outage of the control plane, of the database or of every gateway is never
taken for a silence of the nodes; after one, silence counts anew. A node that never connected is
not judged at all.

====================  ==============  ==================================================
silence               condition       effect
====================  ==============  ==================================================
under 15 s            Connected       none
15 s to 5 min         Disconnected    last choice for new placements
over 5 min            Unreachable     not eligible; its reservations are Degraded
====================  ==============  ==================================================
"""

from collections import defaultdict

from django.db import transaction

from bettercompute import sql
from nodes import conditions, eligibility, notices
from nodes.conditions import Condition, Why

LIVENESS = sql.load(__package__, "liveness")

LIVE_SECONDS = 15
UNREACHABLE_SECONDS = 300
GATEWAY_GAP_SECONDS = 15
# Shorter than LIVE_SECONDS: when the last gateway dies, judging stops before its nodes seem silent.
GATEWAY_BEATING_SECONDS = 10
# A node whose gateway went has this long to find another before its silence counts.
MOVE_SECONDS = 300

_JUDGEMENTS = (Condition.CONNECTED, Condition.DISCONNECTED, Condition.UNREACHABLE)


def judge() -> int:
    """Bring every node's condition in line with its silence; answers how many changed."""
    watched = LIVENESS.one(
        "watch_gateways",
        gap_seconds=GATEWAY_GAP_SECONDS,
        beating_seconds=GATEWAY_BEATING_SECONDS,
    )
    if watched is None or not watched[1]:
        return 0  # no gateway beats: an outage of ours, so nobody is judged
    rows = LIVENESS.all(
        "misjudged",
        recovered_at=watched[0],
        live_seconds=LIVE_SECONDS,
        unreachable_seconds=UNREACHABLE_SECONDS,
        move_seconds=MOVE_SECONDS,
    )
    changed: dict[Condition, list[str]] = defaultdict(list)
    was_unreachable = {node_id for node_id, before, _ in rows if before == Condition.UNREACHABLE}
    for node_id, _, after in rows:
        changed[Condition(after)].append(node_id)
    _connect(changed[Condition.CONNECTED], was_unreachable)
    _disconnect(changed[Condition.DISCONNECTED])
    for node_id in changed[Condition.UNREACHABLE]:
        _give_up_on(node_id)
    return len(rows)


def _connect(node_ids: list[str], was_unreachable: set[str]) -> None:
    quiet = [node_id for node_id in node_ids if node_id not in was_unreachable]
    with transaction.atomic():
        _become(Condition.CONNECTED, quiet)
        notices.publish_of_nodes("node.connected", quiet)
    for node_id in sorted(was_unreachable.intersection(node_ids)):
        with transaction.atomic():
            _become(Condition.CONNECTED, [node_id])
            eligibility.mark_ready(node_id)


def _disconnect(node_ids: list[str]) -> None:
    with transaction.atomic():
        _become(Condition.DISCONNECTED, node_ids, f"not heard of for {LIVE_SECONDS} s")
        notices.publish_of_nodes("node.disconnected", node_ids)


def _give_up_on(node_id: str) -> None:
    with transaction.atomic():
        message = f"not heard of for {UNREACHABLE_SECONDS // 60} minutes"
        _become(Condition.UNREACHABLE, [node_id], message)
        eligibility.mark_unreachable(node_id)


def _become(condition: Condition, node_ids: list[str], message: str = "") -> None:
    """One of the three conditions stands, the other two do not."""
    if node_ids:
        conditions.clear([each for each in _JUDGEMENTS if each != condition], node_ids)
        conditions.put(condition, {node_id: Why(message=message) for node_id in node_ids})
