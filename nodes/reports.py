"""Journal entries of agents, applied in order and once (N7, C28, C37).

An entry that cannot be read counts as applied and is answered as rejected: an agent that refuses
to give it up would otherwise never get through with those behind it. What of an entry is judged
here is only whether it can be stored; whether a binding counts is for the reservations' reconciler,
from the signed text.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from django.db import transaction
from pydantic import ValidationError

from bettercompute import errors, sql
from bettercompute.agent.inventory import HostInventory
from bettercompute.coordination import workqueue
from nodes import assignments, desired
from nodes.models import ReportedState
from nodes.protocol import messages, signing
from nodes.protocol.messages import (
    AllocationBound,
    AllocationFailed,
    AllocationReleased,
    AllocationReport,
    AllocationUsed,
    DeviceHealth,
    InventoryReport,
    KnownReport,
    Rejection,
    ReportEntry,
    ReportsAnswer,
)
from nodes.sessions import SessionSuperseded

REPORTS = sql.load(__package__, "reports")

INVENTORY_KIND = "inventory"
NODE_KIND = "node"
STATEMENT_MS_MAX = 5_000

Json = dict[str, Any]


class Unreadable(ValueError):
    """The entry says nothing that can be stored."""


@dataclass(slots=True)
class _Batch:
    """What a call says, in the order of its entries: the last word on each thing wins."""

    allocations: dict[str, tuple[ReportEntry, AllocationReport]] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    hardware: list[tuple[ReportEntry, InventoryReport | DeviceHealth]] = field(default_factory=list)

    def add(self, entry: ReportEntry, body: KnownReport) -> None:
        match body:
            case InventoryReport() | DeviceHealth():
                self.hardware.append((entry, body))
            case AllocationUsed():
                self.used.add(body.allocation_id)
            case _:
                self.allocations[body.allocation_id] = (entry, body)


def apply(node_id: str, *, epoch: int, entries: Sequence[ReportEntry]) -> ReportsAnswer:
    """Apply what is new of these entries; a replay changes nothing and gets the same answer.

    Raises:
        SessionSuperseded: the session of this epoch is not the node's live one; nothing is applied.
        errors.InvalidInput: the entries are not in order.
    """
    _refuse_disorder(entries)
    read, rejected = _read_all(node_id, entries)
    with transaction.atomic():
        row = REPORTS.one("lock_session", node_id=node_id, epoch=epoch, timeout_ms=STATEMENT_MS_MAX)
        if row is None:
            raise SessionSuperseded
        applied_seq: int = row[0]
        fresh = [(entry, body) for entry, body in read if entry.seq > applied_seq]
        last = max([applied_seq, *(entry.seq for entry in entries)])
        if last > applied_seq:
            _store(node_id, fresh)
            REPORTS.run("applied", node_id=node_id, epoch=epoch, seq=last)
    return ReportsAnswer(applied_seq=last, rejected=rejected)


def ending(node_id: str) -> list[str]:
    """What the node is asked to confirm that it does not hold any more."""
    return [allocation_id for (allocation_id,) in REPORTS.all("ending", node_id=node_id)]


def _refuse_disorder(entries: Sequence[ReportEntry]) -> None:
    for position, (one, next_one) in enumerate(pairwise(entries), start=1):
        if next_one.seq <= one.seq:
            raise errors.InvalidInput.at(
                f"entries[{position}].seq", "must be higher than that of the entry before"
            )


def _read_all(
    node_id: str, entries: Sequence[ReportEntry]
) -> tuple[list[tuple[ReportEntry, KnownReport]], list[Rejection]]:
    read: list[tuple[ReportEntry, KnownReport]] = []
    rejected: list[Rejection] = []
    for entry in entries:
        try:
            read.append((entry, _read(node_id, entry)))
        except Unreadable as error:
            rejected.append(Rejection(seq=entry.seq, message=str(error)[:1_000]))
    return read, rejected


def _read(node_id: str, entry: ReportEntry) -> KnownReport:
    adapter = messages.BODIES.get(entry.kind)
    if adapter is None:
        raise Unreadable(f"this gateway knows no {entry.kind}")
    try:
        body = adapter.validate_json(entry.body)
        if isinstance(body, InventoryReport):
            HostInventory.from_wire(body.inventory)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "body"
        raise Unreadable(f"{where}: {first['msg']}") from error
    if (body.node_id, body.seq) != (node_id, entry.seq):
        raise Unreadable("the body is of another node or of another place in the journal")
    return body


def _store(node_id: str, read: Sequence[tuple[ReportEntry, KnownReport]]) -> None:
    batch = _Batch()
    for entry, body in read:
        batch.add(entry, body)
    lets_go = any(_reported(body) != ReportedState.BOUND for _, body in batch.allocations.values())
    if lets_go:
        # R35: who begins to wait for these devices meanwhile commits first, and is woken below.
        desired.lock([node_id])
    owners = _store_allocations(node_id, batch.allocations)
    if batch.used:
        owners += _store_use(node_id, batch.used)
    if lets_go:
        owners += assignments.owners_waiting_on(node_id)
    wake: set[tuple[str, str]] = {(assignments.OWNER_KIND, owner) for owner in owners}
    if batch.hardware:
        if _store_hardware(node_id, batch.hardware):
            wake.add((INVENTORY_KIND, node_id))
        if any(isinstance(body, DeviceHealth) for _, body in batch.hardware):
            wake.add((NODE_KIND, node_id))
    workqueue.enqueue_many([(kind, key, None) for kind, key in sorted(wake)])


def _store_allocations(
    node_id: str, reports: Mapping[str, tuple[ReportEntry, AllocationReport]]
) -> list[str]:
    """Keep the last report on each allocation; answers who judges them."""
    if not reports:
        return []
    entries = [entry for entry, _ in reports.values()]
    rows = REPORTS.all(
        "store_allocations",
        node_id=node_id,
        allocation_ids=list(reports),
        reported=[_reported(body) for _, body in reports.values()],
        seqs=[entry.seq for entry in entries],
        bodies=[json.dumps(body.to_wire()) for _, body in reports.values()],
        texts=[entry.body.encode() for entry in entries],
        signatures=[signing.decode(entry.signature) or None for entry in entries],
        kids=[entry.kid for entry in entries],
    )
    return [owner for (owner,) in rows]


def _store_use(node_id: str, allocation_ids: Collection[str]) -> list[str]:
    """Keep when these were first used; answers who waits for that."""
    rows = REPORTS.all("store_use", node_id=node_id, allocation_ids=sorted(allocation_ids))
    return [owner for (owner,) in rows]


def _reported(body: AllocationReport) -> ReportedState:
    match body:
        case AllocationBound():
            return ReportedState.BOUND
        case AllocationFailed():
            return ReportedState.FAILED
        case AllocationReleased():
            return ReportedState.RELEASED


def _store_hardware(
    node_id: str, reports: Sequence[tuple[ReportEntry, InventoryReport | DeviceHealth]]
) -> bool:
    """Keep the newest inventory, with what was said of its cards since; True if it is news."""
    row = REPORTS.one("lock_inventory", node_id=node_id)
    host: Json | None = None if row is None else _parsed(row[0])
    seq = 0
    for entry, body in reports:
        if isinstance(body, InventoryReport):
            host, seq = HostInventory.from_wire(body.inventory).to_wire(), entry.seq
        elif host is not None:
            host, seq = _with_health(host, body), entry.seq
    if host is None:
        return False  # the health of cards that no inventory has named yet
    stored = REPORTS.one("store_inventory", node_id=node_id, seq=seq, body=json.dumps(host))
    return stored is not None and bool(stored[0])


def _with_health(host: Json, report: DeviceHealth) -> Json:
    said = {each.device_id: each for each in report.devices}
    return {**host, "gpus": [_card_with_health(gpu, said.get(gpu["uuid"])) for gpu in host["gpus"]]}


def _card_with_health(gpu: Json, said: messages.HealthOfDevice | None) -> Json:
    if said is None:
        return gpu
    health = "healthy" if said.healthy else "unhealthy"
    return {**gpu, "health": health, "healthReason": "" if said.healthy else said.reason}


def _parsed(document: Any) -> Json:
    # Django's connection hands jsonb over as text.
    found: Json = json.loads(document) if isinstance(document, str) else document
    return found
