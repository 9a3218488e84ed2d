"""Silence of nodes, judged: Connected, Disconnected, Unreachable (C36, C38).

When an agent stops talking a condition changes, not ownership. Silence is the time in which we
listened and did not hear of the node (``node_hearing()``), so an outage of the control plane, of
the database or of a gateway is never taken for it. A node that never connected is not judged.

====================  ==============  ==================================================
silence               condition       effect
====================  ==============  ==================================================
under 15 s            Connected       none
15 s to 5 min         Disconnected    last choice for new placements
over 5 min            Unreachable     not eligible; its reservations are Degraded
====================  ==============  ==================================================
"""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import transaction

from bettercompute import sql
from nodes import conditions, eligibility, hearing, notices
from nodes.conditions import Condition, Why

LIVENESS = sql.load(__package__, "liveness")

LIVE_SECONDS = 15
UNREACHABLE_SECONDS = 300

_JUDGEMENTS = (Condition.CONNECTED, Condition.DISCONNECTED, Condition.UNREACHABLE)

_EVENTS = {Condition.CONNECTED: "node.connected", Condition.DISCONNECTED: "node.disconnected"}


@dataclass(frozen=True, slots=True)
class Misjudged:
    """A node whose condition is not what its silence says."""

    node_id: str
    before: str
    after: Condition

    @property
    def changes_eligibility(self) -> bool:
        """Whether it becomes unreachable, or is so no more."""
        return Condition.UNREACHABLE in (self.before, self.after)


def judge() -> int:
    """Bring every node's condition in line with its silence; answers how many changed.

    Eligibility changes with ``Unreachable``, so such nodes go one by one: a placer waits for one
    row of ``nodes`` at most.
    """
    found = _misjudged(None)
    together = [row.node_id for row in found if not row.changes_eligibility]
    changed = _settle(together) if together else 0
    changed += sum(_settle_alone(row.node_id) for row in found if row.changes_eligibility)
    hearing.forget()
    return changed


@transaction.atomic
def _settle(node_ids: Sequence[str]) -> int:
    """Connected or disconnected, which changes nothing but conditions.

    They are judged again while nobody is heard of: a judge that was stopped between looking and
    writing would else call a node silent that has spoken since.
    """
    _hold(node_ids)
    rows = [row for row in _misjudged(node_ids) if not row.changes_eligibility]
    for condition, event in _EVENTS.items():
        moved = [row.node_id for row in rows if row.after == condition]
        _become(condition, moved)
        notices.publish_of_nodes(event, moved)
    return len(rows)


@transaction.atomic
def _settle_alone(node_id: str) -> int:
    """Unreachable, or back from it: the node's own row changes, too."""
    _hold([node_id])
    rows = [row for row in _misjudged([node_id]) if row.changes_eligibility]
    for row in rows:
        _become(row.after, [node_id])
        if row.after == Condition.UNREACHABLE:
            eligibility.mark_unreachable(node_id)
        else:
            eligibility.mark_ready(node_id)
    return len(rows)


def _hold(node_ids: Sequence[str]) -> None:
    LIVENESS.all("lock_sessions", node_ids=list(node_ids))


def _misjudged(node_ids: Sequence[str] | None) -> list[Misjudged]:
    rows = LIVENESS.all(
        "misjudged",
        node_ids=None if node_ids is None else list(node_ids),
        live_seconds=LIVE_SECONDS,
        unreachable_seconds=UNREACHABLE_SECONDS,
    )
    return [Misjudged(node_id, before, Condition(after)) for node_id, before, after in rows]


def _become(condition: Condition, node_ids: Sequence[str]) -> None:
    """One of the three conditions stands, the other two do not."""
    if node_ids:
        conditions.clear([each for each in _JUDGEMENTS if each != condition], node_ids)
        why = Why(message=_message(condition))
        conditions.put(condition, dict.fromkeys(node_ids, why))


def _message(condition: Condition) -> str:
    match condition:
        case Condition.UNREACHABLE:
            return f"not heard of for {UNREACHABLE_SECONDS // 60} minutes"
        case Condition.DISCONNECTED:
            return f"not heard of for {LIVE_SECONDS} s"
        case _:
            return ""
