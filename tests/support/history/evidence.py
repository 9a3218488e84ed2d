"""What a history shows of each reservation, gathered once for all checks."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tests.support.history import model
from tests.support.history.recording import NEVER, FinalState, History, Operation

FINAL = 0  #: the operation of what only the final state shows


@dataclass(frozen=True)
class Observation:
    """A reservation as one answer showed it.

    It was so at some instant from ``invoked`` to ``completed``, which is not known more closely;
    every check must hold for each choice of it.
    """

    operation: int
    invoked: float
    completed: float
    shown: Mapping[str, Any] = field(repr=False)

    @property
    def id(self) -> str:
        """Of the reservation."""
        return str(self.shown["id"])

    @property
    def version(self) -> int:
        """Of the reservation, as shown."""
        return int(self.shown["version"])

    @property
    def state(self) -> str:
        """Of the reservation, as shown."""
        return str(self.shown["state"])

    @property
    def start(self) -> int | None:
        """Of the window, in epoch milliseconds."""
        return (self.shown.get("during") or {}).get("start")

    @property
    def end(self) -> int | None:
        """Of the window, in epoch milliseconds."""
        return (self.shown.get("during") or {}).get("end")

    @cached_property
    def booked(self) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
        """Allocation, node and devices of all that is booked for it, in order."""
        if self.state not in model.HOLDING:
            return ()
        return tuple(
            sorted(
                (part["id"], part["nodeId"], tuple(sorted(part["deviceIds"])))
                for part in self.shown["allocations"]
                if part["state"] in model.BOOKED
            )
        )


@dataclass(frozen=True)
class Evidence:
    """A history, sorted by what it is about."""

    history: History
    final: FinalState | None

    @property
    def operations(self) -> tuple[Operation, ...]:
        """All operations, by invocation."""
        return self.history.operations

    @cached_property
    def observations(self) -> dict[str, list[Observation]]:
        """Every reservation's observations, by invocation."""
        found: dict[str, list[Observation]] = defaultdict(list)
        for operation in self.operations:
            for shown in shown_by(operation):
                seen = Observation(operation.id, operation.invoked, operation.completed, shown)
                found[seen.id].append(seen)
        if self.final is not None:
            for shown in self.final.reservations.values():
                seen = Observation(FINAL, self.final.since, NEVER, shown)
                found[seen.id].append(seen)
        for each in found.values():
            each.sort(key=lambda seen: seen.invoked)
        return dict(found)

    @cached_property
    def creates(self) -> dict[tuple[str, str, str], list[Operation]]:
        """Every create, by tenant, caller and key."""
        found: dict[tuple[str, str, str], list[Operation]] = defaultdict(list)
        for operation in self.operations:
            call = operation.call
            if call.op == "create" and call.key is not None:
                found[call.tenant, call.caller, call.key].append(operation)
        return dict(found)

    @cached_property
    def identities(self) -> dict[str, str]:
        """Who each caller is to the server, as far as creates told."""
        return {
            operation.call.caller: operation.document["ownerIdentityId"]
            for operation in self.operations
            if operation.call.op == "create" and operation.acknowledged
        }


def shown_by(operation: Operation) -> Iterator[Mapping[str, Any]]:
    """The reservations that an operation's answer shows."""
    if not operation.acknowledged:
        return
    document = operation.document
    if operation.call.op == "list":
        yield from document.get("items", [])
    elif operation.call.op in model.SHOWING and "version" in document:
        yield document
