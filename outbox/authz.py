"""The authorization feed for an outside policy engine, read like the events (C23, C28).

An entry is the whole state of one resource, never a difference: applied twice it changes nothing,
and of two entries about one resource the one at the higher position is right. So an engine starts,
and starts again after a reset, with ``resume``, then reads every resource (``projection.present``),
then follows from the position it was given: what changed meanwhile comes again, whole.

``iam.projection`` writes the entries; the reader stands here beside its twin.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bettercompute import sql
from outbox import feeds
from outbox.feeds import Feed, Page, Resumed
from outbox.positions import Position


@dataclass(frozen=True, slots=True)
class Change:
    """The whole state of a resource, as it became."""

    position: Position
    resource_id: str
    kind: str
    tenant_id: str
    state: dict[str, Any]
    time: datetime


def _change(row: sql.Row) -> Change:
    txid, seq, resource_id, kind, tenant_id, state, time = row
    return Change(Position(txid, seq), resource_id, kind, tenant_id, json.loads(state), time)


CHANGES: Feed[Change] = feeds.Feed(sql.load(__package__, "authz"), _change)


def resume(last: str | None) -> Resumed:
    """Where an engine goes on, by the position it has kept."""
    return CHANGES.resume(last)


def follow(
    after: Position,
    *,
    limit: int,
    kinds: Collection[str] | None = None,
    tenant_id: str | None = None,
) -> Page[Change]:
    """The next changes, and where to go on."""
    return CHANGES.follow(after, limit=limit, types=kinds, tenant_id=tenant_id)
