"""The authorization projection: what a policy engine knows of each resource (R10, C23, C28).

``authz_resources`` holds the present state, ``authz_changes`` the feed of whole states for an
outside engine. Both are written in the transaction that changes the resource.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bettercompute import sql

PROJECTION = sql.load(__package__, "projection")


@dataclass(frozen=True, slots=True)
class Present:
    """The whole state of a resource, as it is."""

    resource_id: str
    kind: str
    tenant_id: str
    state: dict[str, Any]


def record(
    resource_id: str,
    kind: str,
    tenant_id: str,
    attributes: Mapping[str, Any],
    *,
    pending: Mapping[str, Any] | None = None,
) -> None:
    """Store what is true of a resource now, and append it to the feed, in one statement.

    ``pending`` is a change that awaits its decision (R34); without it a pending change is cleared.
    """
    PROJECTION.run(
        "record",
        id=resource_id,
        kind=kind,
        tenant_id=tenant_id,
        attributes=json.dumps(attributes),
        pending=None if pending is None else json.dumps(pending),
    )


def amend(resource_id: str, changes: Mapping[str, Any]) -> None:
    """Store that some attributes of a resource are others now; a pending change stays staged."""
    _amend(resource_id, changes, keeps_pending=True)


def stage(resource_id: str, pending: Mapping[str, Any]) -> None:
    """Store a change that awaits its decision (R34), in place of any other."""
    _amend(resource_id, {}, pending=pending)


def settle(resource_id: str, changes: Mapping[str, Any]) -> None:
    """Store what came of the pending change, nothing perhaps: it is pending no longer."""
    _amend(resource_id, changes)


def _amend(
    resource_id: str,
    changes: Mapping[str, Any],
    *,
    pending: Mapping[str, Any] | None = None,
    keeps_pending: bool = False,
) -> None:
    PROJECTION.run(
        "amend",
        id=resource_id,
        changes=json.dumps(changes),
        pending=None if pending is None else json.dumps(pending),
        keeps_pending=keeps_pending,
    )


def present(*, after_id: str = "", limit: int = 1_000) -> list[Present]:
    """Every resource as it is, by id, some at a time: where an engine starts."""
    rows = PROJECTION.all("present", after_id=after_id, limit=limit)
    # Django switches psycopg's JSON loading off: the column comes as text.
    return [Present(key, kind, tenant, json.loads(state)) for key, kind, tenant, state in rows]


def attributes_of_many(resource_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What the policies last knew of each of these that they heard of."""
    rows = PROJECTION.all("attributes_of_many", ids=list(resource_ids))
    return {resource_id: dict(json.loads(known)) for resource_id, known in rows}


def attributes_of(resource_id: str) -> dict[str, Any]:
    """What the policies last knew of a resource; empty where they never heard of it."""
    row = PROJECTION.one("attributes", id=resource_id)
    return {} if row is None else dict(json.loads(row[0]))
