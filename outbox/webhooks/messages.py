"""What an endpoint is sent: the body, made once and kept, so that each retry has the same bytes."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from bettercompute import clock
from outbox.reader import EventRow


def of_event(event: EventRow) -> str:
    """An event of the outbox."""
    return body(
        event.id,
        type=event.type,
        tenant_id=event.tenant_id,
        subject=event.subject,
        data=event.data,
        time=event.time,
    )


def body(
    event_id: str,
    *,
    type: str,  # noqa: A002
    tenant_id: str,
    subject: str,
    data: Mapping[str, Any],
    time: datetime,
) -> str:
    """An event as receivers get it: ``{id, type, tenantId, subject, data, time}``."""
    document = {
        "id": event_id,
        "type": type,
        "tenantId": tenant_id,
        "subject": subject,
        "data": data,
        "time": clock.to_ms(time),
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))
