"""What must hold after every step, and what must hold once everything has come to rest."""

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import combinations
from typing import Any

from django.db import connection

from bettercompute import errors
from bettercompute.agent import atoms
from bettercompute.coordination.fencing import LeaseLost
from tests.simulation.actors import AgentProcess, SinkRefuses
from tests.simulation.database import is_lost_database
from tests.simulation.stage import Stage
from tests.support import invariants

TERMINAL = {"released", "failed", "cancelled", "expired", "denied"}
CHECKS_A_STEP = 3  # in turns; all of them every few steps

_ROWS = """
SELECT 'reservation', id, state, version FROM reservations
 UNION ALL
SELECT 'lease', name, owner, epoch FROM leases
"""
# What a node reported is judged at once: until then its owner is due, or being looked at (C26).
_UNJUDGED = """
SELECT format('%s reported %s, and nobody will look', allocation_id, reported)
  FROM assignments
  JOIN allocations ON allocations.id = assignments.allocation_id
  LEFT JOIN work_queue ON kind = 'reservation' AND key = owner_key
 WHERE ((allocations.state = 'binding' AND reported IN ('bound', 'failed'))
        OR (allocations.state = 'releasing' AND reported IN ('released', 'failed')))
   AND (work_queue.id IS NULL OR (not_before > compute_now() AND attempts = 0))
 UNION ALL
SELECT format('%s reported what it is made of, and nobody will look', node_id)
  FROM node_inventories
 WHERE applied_at IS NULL
   AND error = ''
   AND NOT EXISTS (SELECT FROM work_queue WHERE kind = 'inventory' AND key = node_id)
 UNION ALL
SELECT format('%s has not let go of %s, and nobody will look', node_id, allocation_id)
  FROM assignments
 WHERE NOT wanted AND entered_at IS NOT NULL AND left_at IS NOT NULL
   AND reported NOT IN ('released', 'failed')
   AND NOT EXISTS (SELECT FROM work_queue WHERE kind = 'node' AND key = node_id)
"""
# Nothing ever appears behind a cursor (C21): what does is never told.
_BEHIND = """
SELECT outbox_cursors.sink, outbox.id
  FROM outbox, outbox_cursors
 WHERE (outbox.txid, outbox.seq) <= (outbox_cursors.txid, outbox_cursors.seq)
   AND outbox_cursors.sink = ANY(%s)
   AND NOT outbox.id = ANY(%s)
"""
_UNTOLD = "SELECT id FROM outbox WHERE NOT id = ANY(%s) ORDER BY seq"
_OVERDUE = """
SELECT format('%s %s is due and was not run: %s', kind, key, last_error)
  FROM work_queue
 WHERE not_before <= compute_now()
 ORDER BY kind, key
"""


class Violation(AssertionError):
    """A promise is broken."""


class Mistakes(logging.Handler):
    """Errors that the product logged and survived, and that no injected fault explains."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it, unless we made it happen."""
        error = record.exc_info[1] if record.exc_info else None
        if error is None or not is_expected(error):
            what = "" if error is None else f": {type(error).__name__}: {error}"
            self.found.append(f"logged: {record.getMessage()[:200]}{what[:300]}")


def is_expected(error: BaseException) -> bool:
    """Whether the simulation itself, or a refusal that the wire knows, is behind this."""
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    return any(
        is_lost_database(each) or isinstance(each, SinkRefuses | LeaseLost) for each in chain
    ) or (isinstance(chain[0], errors.ApiError) and chain[0].status < 500)


class Promises:
    """Watches one simulation."""

    def __init__(self, stage: Stage) -> None:
        self.rows: dict[tuple[str, str], tuple[str, int]] = {}
        self._mistakes = Mistakes()
        self._processes = list(stage.processes.values())
        self._agents = list(stage.agents.values())
        self._sinks = stage.sinks
        self._operations = stage.operations
        self._next = 0

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Hear what is logged as an error; what is less only costs time."""
        root = logging.getLogger()
        disabled = logging.root.manager.disable
        root.addHandler(self._mistakes)
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(disabled)
            root.removeHandler(self._mistakes)

    def after_step(self, *, wrote: bool) -> list[str]:
        """Look at everything that is cheap; answers what changed. Raises: Violation."""
        self._require(self._in_memory())
        if not wrote:
            return []
        changes = self._changes()
        self._require(f"forgotten: {what}" for what in _column(_UNJUDGED))
        self._require(self._behind())
        count = len(invariants.CHECKS)
        chosen = [invariants.CHECKS[(self._next + n) % count] for n in range(CHECKS_A_STEP)]
        self._next += CHECKS_A_STEP
        self._require(f"{f.check}: {f.message}" for check in chosen for f in check())
        return changes

    def all(self) -> None:
        """Look at every invariant. Raises: Violation."""
        self._require(self._in_memory())
        self._require(invariants.violations())
        lost = invariants.lost(self._operations.acknowledged)
        self._require(f"lost: {key} was acknowledged" for key in lost)

    def at_rest(self) -> None:
        """Nothing due is left undone, and everybody was told everything. Raises: Violation."""
        self._require(f"undone: {what}" for what in _column(_OVERDUE))
        self._require(
            f"untold: {sink.name} never heard of {key}"
            for sink in self._sinks
            for key in _column(_UNTOLD, list(sink.told))
        )

    def ended(self) -> None:
        """Nothing is held of anything any more. Raises: Violation."""
        self._require(f"held: {what}" for what in invariants.held())
        self._require(
            f"held: {agent.name} still holds {key}"
            for agent in self._agents
            for key in agent.holds.read()
        )

    def _behind(self) -> list[str]:
        told = {sink.name: sink.told for sink in self._sinks}
        to_all = set.intersection(*map(set, told.values()))
        return [
            f"untold: {key} is behind the cursor of {sink}"
            for sink, key in _rows(_BEHIND, list(told), list(to_all))
            if key not in told[sink]
        ]

    def _in_memory(self) -> list[str]:
        found = [each for p in self._processes for c in p.connections for each in c.accused]
        found += self._mistakes.found
        found += [f"behind: {each}" for sink in self._sinks for each in sink.behind]
        found += [f"crashed: {a.name}: {each}" for a in self._agents for each in a.loop.mistakes]
        return found + [f"silicon: {each}" for agent in self._agents for each in _shared(agent)]

    def _changes(self) -> list[str]:
        """What states and leases became. Raises: Violation, where one may not become that."""
        told: list[str] = []
        for kind, key, value, number in _rows(_ROWS):
            before = self.rows.get((kind, key))
            after = (value, number)
            if before == after:
                continue
            self.rows[kind, key] = after
            if before is not None:
                self._require(_forbidden(kind, key, before, after))
            if kind == "reservation":
                told.append(f"{key} {before[0] if before else ''}→{value} v{number}")
        return sorted(told)

    def _require(self, found: Iterable[str]) -> None:
        found = sorted(set(found))
        if found:
            raise Violation("\n".join(found[:10]))


def _forbidden(
    kind: str, key: str, before: tuple[str, int], after: tuple[str, int]
) -> Iterable[str]:
    if after[1] < before[1]:
        yield f"{kind}: {key} went back from {before[1]} to {after[1]}"
    if kind == "reservation" and before[0] in TERMINAL and after[0] != before[0]:
        yield f"reservation: {key} was {before[0]} and became {after[0]}"
    if kind == "lease" and after[0] and before[0] not in ("", after[0]) and after[1] == before[1]:
        yield f"lease: {key} has two owners in epoch {after[1]}"


def _shared(agent: AgentProcess) -> Iterable[str]:
    for one, other in combinations(agent.holds.read().values(), 2):
        for name in one.device_ids:
            if any(atoms.overlap(name, theirs) for theirs in other.device_ids):
                yield f"{agent.name} holds {name} for {one.allocation_id} and {other.allocation_id}"


def _rows(statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters or None)
        return list(cursor.fetchall())


def _column(statement: str, *parameters: Any) -> list[str]:
    return [key for (key,) in _rows(statement, *parameters)]
