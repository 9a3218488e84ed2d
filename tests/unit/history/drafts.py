"""A history under the hands of somebody who spoils it."""

import random
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from tests.support.history.recording import Answer, FinalState, History, Operation
from tests.unit.history import cloud

T = TypeVar("T")

LIVE = ("placed", "binding", "active")
TERMINAL = ("released", "cancelled")


class Unspoilable(Exception):
    """This history has no place for this anomaly."""


@dataclass
class Draft:
    """A history under the spoiler's hands."""

    rng: random.Random
    operations: dict[int, Operation]
    final: FinalState

    @classmethod
    def of(cls, rng: random.Random, history: History, final: FinalState) -> "Draft":
        """A copy to change."""
        operations = {each.id: deepcopy(each) for each in history.operations}
        return cls(rng, operations, deepcopy(final))

    def history(self) -> History:
        """As it is now."""
        return History(tuple(self.operations.values()))

    def pick(self, candidates: Iterable[T]) -> T:
        """One of these."""
        found = list(candidates)
        if not found:
            raise Unspoilable
        return self.rng.choice(found)

    def done(self, *names: str, status: int | None = None) -> list[Operation]:
        """Answered operations of these kinds, by what was answered."""
        return [
            each
            for each in self.operations.values()
            if each.answer is not None
            and (not names or each.call.op in names)
            and (status is None or each.status == status)
        ]

    def answer(self, operation: Operation, status: int, body: Any, **headers: str) -> None:
        """Have it answered with this."""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        answered = Answer(status, body, names or cloud.answer(status, body).headers)
        self.operations[operation.id] = replace(operation, answer=answered)

    def refuse(self, operation: Operation, status: int, code: str, **details: Any) -> None:
        """Have it refused with this."""
        self.answer(operation, *cloud.problem(status, code, **details))

    def row(self, key: str) -> dict[str, Any]:
        """A reservation of the final state, to change."""
        found = self.final.reservations[key]
        assert isinstance(found, dict)
        return found

    def acknowledged(self, *states: str, in_the_end: tuple[str, ...]) -> list[Operation]:
        """Creates and gets that showed one of these states, by the state in the end."""
        return [
            each
            for each in self.done("create", "get")
            if each.acknowledged
            and each.document["state"] in states
            and self.final.reservations[each.document["id"]]["state"] in in_the_end
        ]

    def replays(self) -> list[tuple[Operation, Operation]]:
        """Creates that were acknowledged, and later creates of the same key."""
        return [
            (first, again)
            for first in self.done("create")
            for again in self.done("create")
            if first.acknowledged
            and first.completed < again.invoked
            and (first.call.caller, first.call.key) == (again.call.caller, again.call.key)
        ]

    def pairs(self) -> list[tuple[Operation, Operation]]:
        """Two answers that showed one reservation, one after the other."""
        shown = [e for e in self.done("create", "get", "release", "cancel") if e.acknowledged]
        return [
            (one, other)
            for one in shown
            for other in shown
            if one.completed < other.invoked and one.document["id"] == other.document["id"]
        ]

    def unchanged(self) -> list[Operation]:
        """Answers that showed a live reservation as it is in the end."""
        return [
            each
            for each in self.acknowledged(*LIVE, in_the_end=LIVE)
            if each.document["version"] == self.row(each.document["id"])["version"]
        ]
