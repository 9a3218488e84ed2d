"""Releases and cancels: what was acknowledged as over stays over, and what can end does."""

from collections.abc import Iterator

from tests.support.history import model
from tests.support.history.anomalies import Anomaly, Kind
from tests.support.history.evidence import Evidence, Observation
from tests.support.history.recording import Operation, operations_of


def check(evidence: Evidence) -> Iterator[Anomaly]:
    """Anomalies of all ends."""
    for operation in operations_of(evidence.history, "release", "cancel"):
        yield from _acknowledged(operation)
        yield from _refused(evidence, operation)
    yield from _cancelled_twice(evidence)
    for key, seen in evidence.observations.items():
        yield from _final(key, seen)


def _acknowledged(operation: Operation) -> Iterator[Anomaly]:
    state = operation.document.get("state")
    ends = {"cancelled"} if operation.call.op == "cancel" else model.TERMINAL
    if operation.acknowledged and state not in ends:
        message = f"{operation.call.op} was acknowledged, and it is {state}"
        yield Anomaly(Kind.NOT_ENDED, operation.call.target or "", message, (operation.id,))


def _refused(evidence: Evidence, operation: Operation) -> Iterator[Anomaly]:
    """A release is refused only where a confirmation is awaited, a cancel never while pending."""
    if operation.status != 409 or operation.call.target is None:
        return
    seen = evidence.observations.get(operation.call.target, [])
    if operation.call.op == "cancel":
        wrongly = any(state == "pending" for state in _throughout(operation, seen))
    else:
        wrongly = bool(seen) and all(each.state != "awaiting-confirmation" for each in seen)
    if wrongly:
        message = f"{operation.call.op} was refused as {operation.code}"
        yield Anomaly(Kind.END_REFUSED, operation.call.target, message, (operation.id,))


def _throughout(operation: Operation, seen: list[Observation]) -> set[str]:
    """The state it had during the whole operation, where the same version was read around it."""
    before = {each.version: each.state for each in seen if each.completed < operation.invoked}
    after = {each.version for each in seen if each.invoked > operation.completed}
    return {state for version, state in before.items() if version in after}


def _cancelled_twice(evidence: Evidence) -> Iterator[Anomaly]:
    """The second cancel of one reservation finds it cancelled, and is refused."""
    first: dict[str, Operation] = {}
    for operation in operations_of(evidence.history, "cancel"):
        if not operation.acknowledged or operation.call.target is None:
            continue
        known = first.setdefault(operation.call.target, operation)
        if known is not operation:
            message = "two cancels were acknowledged"
            operations = (known.id, operation.id)
            yield Anomaly(Kind.CANCELLED_TWICE, operation.call.target, message, operations)


def _final(key: str, seen: list[Observation]) -> Iterator[Anomaly]:
    """Whatever its version says: nothing that was over is live to anyone who asks later."""
    over = [each for each in seen if each.state in model.TERMINAL]
    if not over:
        return
    first = min(over, key=lambda each: each.completed)
    for each in seen:
        if each.state not in model.TERMINAL and each.invoked > first.completed:
            message = f"was {first.state}, later {each.state}"
            yield Anomaly(Kind.RESURRECTED, key, message, (first.operation, each.operation))
