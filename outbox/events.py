"""Publishing: an event is a row, written with the change it describes (C20)."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog
from django.db import transaction

from bettercompute import ids, sql
from bettercompute.acts import Thing
from bettercompute.audit import entries
from bettercompute.audit.entries import Told
from bettercompute.coordination import hints
from bettercompute.telemetry import tracing
from outbox import catalog

EVENTS = sql.load(__package__, "events")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class NewEvent:
    """What happened, to what, for whom."""

    type: str
    tenant_id: str
    subject: str  # what it is about: reservation/rsv_…
    data: Mapping[str, Any]


def publish(type: str, *, tenant_id: str, subject: str, data: Mapping[str, Any]) -> None:  # noqa: A002
    """Write one event in the caller's transaction; if that rolls back, it never happened."""
    publish_many([NewEvent(type, tenant_id, subject, data)])


def publish_many(events: Iterable[NewEvent]) -> None:
    """Write several events, in this order, in one statement; with them, who made them happen.

    Raises:
        KeyError: the catalog does not have the type: a mistake of ours.
        pydantic.ValidationError: the data are not what the catalog says: likewise.
    """
    rows = list(events)
    if not rows:
        return
    named = [ids.new("evt") for _ in rows]
    EVENTS.run(
        "publish",
        entries=entries.of_events(
            Told(event.type, event.tenant_id, Thing.of_subject(event.subject)) for event in rows
        ),
        ids=named,
        types=[event.type for event in rows],
        tenants=[event.tenant_id for event in rows],
        subjects=[event.subject for event in rows],
        bodies=[_body(event) for event in rows],
        origin=tracing.origin(),
    )
    hints.tell_on_commit()  # sinks and streams look sooner
    transaction.on_commit(partial(_log, named, rows), robust=True)


def _log(named: Iterable[str], events: Iterable[NewEvent]) -> None:
    """One line each, beside the request or the run that did it."""
    for event_id, event in zip(named, events, strict=True):
        state = event.data.get("state")
        log.info(
            "published",
            type=event.type,
            subject=event.subject,
            state=None if state is None else str(state),
            tenant_id=event.tenant_id,
            event_id=event_id,
        )


def _body(event: NewEvent) -> str:
    model = catalog.BY_NAME[event.type].data.model_validate(event.data)
    return json.dumps(model.model_dump(mode="json", by_alias=True, exclude_none=True))
