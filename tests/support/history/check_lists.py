"""Lists: what was acknowledged before is in them, in its place, and nothing else.

A page shows the reservations from behind its cursor to its last item, or to the end where there is
no next one. Places are compared by ``createdAt``, in milliseconds; of two of the same millisecond
nothing is said.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from tests.support.history.anomalies import Anomaly, Kind
from tests.support.history.evidence import Evidence, Observation
from tests.support.history.recording import NEVER, Operation, operations_of

FILTERS_UNKNOWN = frozenset({"poolId"})


def check(evidence: Evidence) -> Iterator[Anomaly]:
    """Anomalies of all lists."""
    for operation in operations_of(evidence.history, "list"):
        if operation.acknowledged:
            yield from _wrong(operation)
            yield from _lacks(evidence, operation)


def _wrong(operation: Operation) -> Iterator[Anomaly]:
    items = operation.document["items"]
    states = states_of(operation)
    ids = [item["id"] for item in items]
    if len(set(ids)) != len(ids):
        yield _of(operation, Kind.LIST_WRONG, "shows a reservation twice")
    if any(one["createdAt"] < other["createdAt"] for one, other in pairwise(items)):
        yield _of(operation, Kind.LIST_WRONG, "is not newest first")
    beside = [item["id"] for item in items if states and item["state"] not in states]
    if beside or any(item["state"] == "draft" for item in items):
        yield _of(operation, Kind.LIST_WRONG, f"shows what was not asked for: {beside}")
    if len(items) > operation.call.asked.get("limit", NEVER):
        yield _of(operation, Kind.LIST_WRONG, "is longer than its limit")


def _lacks(evidence: Evidence, operation: Operation) -> Iterator[Anomaly]:
    asked = operation.call.asked
    bounds = _bounds(evidence, operation)
    owner = evidence.identities.get(operation.call.caller)
    mine = asked.get("scope", "mine") == "mine"
    if bounds is None or FILTERS_UNKNOWN & set(asked) or (mine and owner is None):
        return
    oldest, newest = bounds
    shown = {item["id"] for item in operation.document["items"]}
    for key, seen in evidence.observations.items():
        one = seen[0].shown
        if (
            key not in shown
            and one["tenantId"] == operation.call.tenant
            and oldest < one["createdAt"] < newest
            and (not mine or one["ownerIdentityId"] == owner)
            and _surely_there(operation, seen, states_of(operation))
        ):
            yield _of(operation, Kind.LIST_LACKS, f"lacks {key}, acknowledged before")


def _surely_there(operation: Operation, seen: list[Observation], states: Sequence[str]) -> bool:
    """Acknowledged before it; with a filter, of one version around it, in a state asked for."""
    before = [each for each in seen if each.completed < operation.invoked]
    if not states:
        return bool(before)
    after = {each.version for each in seen if each.invoked > operation.completed}
    return any(each.version in after and each.state in states for each in before)


def _bounds(evidence: Evidence, operation: Operation) -> tuple[float, float] | None:
    """The instants between which the page shows everything; None where that is not known."""
    document, cursor = operation.document, operation.call.asked.get("cursor")
    newest = NEVER
    if cursor is not None:
        known = evidence.observations.get(cursor)
        if not known:
            return None
        newest = known[0].shown["createdAt"]
    if document["nextCursor"] is None:
        return -NEVER, newest
    if not document["items"]:
        return None
    return document["items"][-1]["createdAt"], newest


def states_of(operation: Operation) -> list[str]:
    """The states that the list was asked for; none means all."""
    states = operation.call.asked.get("state", [])
    return [states] if isinstance(states, str) else list(states)


def _of(operation: Operation, kind: Kind, message: str) -> Anomaly:
    return Anomaly(kind, f"list of {operation.call.tenant}", message, (operation.id,))
