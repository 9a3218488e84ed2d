"""Devices of a node that an allocation holds: planned, then wanted, then confirmed gone (R26, R35).

An assignment's life, by its columns:

1. *planned*: written with the booking; the node need not know (``wanted`` false, never entered).
2. *waiting*: ``want`` was called, but an earlier assignment may still hold one of the devices
   (``wanted`` true, ``entered_at`` null). Its owner is woken when that one is forgotten.
3. *entered*: part of the node's desired state since ``entered_at``; the bind deadline runs from
   there, not from when it was wanted.
4. *ending*: ``unwant`` took it out; the node may hold it until it reports released or failed.
5. *forgotten*: the row is gone. ``forget`` leaves what the node has not confirmed.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from bettercompute import sql
from bettercompute.coordination import workqueue
from nodes import desired
from nodes.models import ReportedState
from nodes.protocol import messages

ASSIGNMENTS = sql.load(__package__, "assignments")

OWNER_KIND = "reservation"  # the work-queue kind whose reconciler judges reports
NODE_KIND = "node"
USE_LABEL = f"bc.dev/cap.{messages.USE}"


@dataclass(frozen=True, slots=True)
class PlannedAssignment:
    """What will be wanted of one node for one allocation."""

    allocation_id: str
    owner_key: str
    node_id: str
    device_ids: Sequence[str]
    until: datetime
    limits: Mapping[str, Any] = field(default_factory=dict)
    binding: str = "hold"


@dataclass(frozen=True, slots=True)
class Unconfirmed:
    """What a node may still hold though it left desired state."""

    allocation_id: str
    device_ids: tuple[str, ...]
    due_at: datetime
    overdue: bool
    node_is_silent: bool


@dataclass(frozen=True, slots=True)
class AssignmentReport:
    """What is wanted of the node, and what it last said."""

    allocation_id: str
    node_id: str
    device_ids: tuple[str, ...]
    until: datetime
    binding: str
    wanted: bool
    entered_at: datetime | None
    reported: str
    reported_at: datetime | None
    report: Mapping[str, Any]
    bound_report: bytes | None
    bound_sig: bytes | None
    bound_sig_kid: str

    @property
    def waiting(self) -> bool:
        """Whether an earlier assignment keeps it out of the node's desired state (R35)."""
        return self.wanted and self.entered_at is None

    @property
    def let_go(self) -> bool:
        """Whether the node holds nothing for it: it never entered, or the node said so."""
        return self.entered_at is None or self.reported in (
            ReportedState.RELEASED,
            ReportedState.FAILED,
        )


@dataclass(frozen=True, slots=True)
class Use:
    """Whether an owner's devices are used, as far as their nodes can tell."""

    node_ids: tuple[str, ...]
    told: bool  #: each of these nodes would say so, and can be heard now
    used: bool


def plan(planned: Iterable[PlannedAssignment]) -> None:
    """Remember what will be wanted, in the transaction that books it."""
    rows = [
        {
            "allocation_id": each.allocation_id,
            "owner_key": each.owner_key,
            "node_id": each.node_id,
            "device_ids": list(each.device_ids),
            "until": each.until.isoformat(),
            "limits": dict(each.limits),
            "binding": each.binding,
        }
        for each in planned
    ]
    if rows:
        ASSIGNMENTS.run("plan", planned=json.dumps(rows))


def want(allocation_ids: Iterable[str]) -> dict[str, datetime]:
    """Put these into their nodes' desired state; answers those in it, and since when.

    One that is missing from the answer waits for an earlier assignment (R35): its owner is woken
    and wants it again. Repeating it changes nothing.
    """
    wanted = list(allocation_ids)
    changed = ASSIGNMENTS.all("not_entered", allocation_ids=wanted)
    if changed:
        desired.change(node_id for (node_id,) in changed)
        ASSIGNMENTS.run("want", allocation_ids=wanted)
    return dict(ASSIGNMENTS.all("entered", allocation_ids=wanted))


def prolong(allocation_ids: Iterable[str], *, until: datetime) -> None:
    """Let these last until later, and tell the nodes that have them already (R33)."""
    prolonged = list(allocation_ids)
    changed = ASSIGNMENTS.all("in_desired_state", allocation_ids=prolonged)
    desired.change(node_id for (node_id,) in changed)
    ASSIGNMENTS.run("prolong", allocation_ids=prolonged, until=until)


def unwant(allocation_ids: Iterable[str]) -> None:
    """Take these out of their nodes' desired state; repeating it changes nothing."""
    ended = list(allocation_ids)
    changed = ASSIGNMENTS.all("in_desired_state", allocation_ids=ended)
    desired.change(node_id for (node_id,) in changed)
    ASSIGNMENTS.run("unwant", allocation_ids=ended)
    # The node's reconciler watches over the unbind deadline.
    workqueue.enqueue_many([(NODE_KIND, node_id, None) for (node_id,) in changed])


def reports(owner_key: str) -> list[AssignmentReport]:
    """All of an owner's assignments with what their nodes last said, by allocation."""
    return [_report(row) for row in ASSIGNMENTS.all("of_owner", owner_key=owner_key)]


def use_of(owner_key: str) -> Use:
    """Whether any of an owner's devices has been used since they were handed over."""
    row = ASSIGNMENTS.one("use_of", owner_key=owner_key, label=USE_LABEL)
    assert row is not None
    node_ids, told, used = row
    return Use(tuple(node_ids or ()), bool(told), bool(used))


def earlier_left_at(owner_key: str) -> datetime | None:
    """When the last of those that an owner waits for was told to let go; None: not all were."""
    row = ASSIGNMENTS.one("earlier_left_at", owner_key=owner_key)
    return None if row is None else row[0]


def forget(
    allocation_ids: Iterable[str],
    *,
    even_unconfirmed: bool = False,
    waking: Iterable[workqueue.Wanted] = (),
) -> set[str]:
    """Drop these, and wake whoever waits for their devices; answers which were dropped.

    What a node may still hold stays, unless an operator says that the node is dead. ``waking`` is
    what the caller has to wake besides: one statement, so that keys are locked in one order (C19).
    """
    wanted = list(allocation_ids)
    nodes = ASSIGNMENTS.all("nodes_of", allocation_ids=wanted)
    # Whoever finds itself waiting meanwhile commits first, and is woken below; or later, and waits
    # for nothing.
    desired.lock(node_id for (node_id,) in nodes)
    dropped = ASSIGNMENTS.all("forget", allocation_ids=wanted, even_unconfirmed=even_unconfirmed)
    waiting = ASSIGNMENTS.all(
        "owners_waiting",
        node_ids=[node_id for _, node_id, _ in dropped],
        device_ids=[device for _, _, devices in dropped for device in devices],
    )
    workqueue.enqueue_many([*((OWNER_KIND, owner, None) for (owner,) in waiting), *waking])
    return {allocation_id for allocation_id, _, _ in dropped}


def owners_on(node_ids: Iterable[str]) -> list[str]:
    """Who has assignments on any of these nodes, by key."""
    return [owner for (owner,) in ASSIGNMENTS.all("owners_on_node", node_ids=list(node_ids))]


def owners_waiting_on(node_id: str) -> list[str]:
    """Whose assignments on this node wait for an earlier one to be let go, by key."""
    return [owner for (owner,) in ASSIGNMENTS.all("owners_waiting_on_node", node_id=node_id)]


def owners_of(allocation_ids: Iterable[str]) -> dict[str, str]:
    """Owner by allocation, where there is an assignment."""
    return dict(ASSIGNMENTS.all("owners_of", allocation_ids=list(allocation_ids)))


def unconfirmed(node_id: str, *, unbind_seconds: int) -> list[Unconfirmed]:
    """What this node has not confirmed to have let go, the oldest first."""
    rows = ASSIGNMENTS.all("unconfirmed", node_id=node_id, unbind_seconds=unbind_seconds)
    return [Unconfirmed(row[0], tuple(row[1]), *row[2:]) for row in rows]


def nodes_unconfirmed() -> list[str]:
    """The nodes that may still hold what nobody wants: for the resync (C27)."""
    return [node_id for (node_id,) in ASSIGNMENTS.all("nodes_unconfirmed")]


def _report(row: sql.Row) -> AssignmentReport:
    values = list(row)
    values[2] = tuple(values[2])
    values[9] = json.loads(values[9])
    return AssignmentReport(*values)
