"""Conditions: what is true of a reservation now, as a list of plain objects (R23).

A condition is ``{type, status, reason, message, since}``; one of each type at most. All functions
are pure: they answer a new list. ``since`` moves only when the status or the reason changes.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

Conditions = list[dict[str, Any]]


class ConditionType(StrEnum):
    """What a condition is about."""

    UNSCHEDULABLE = "Unschedulable"
    QUEUED = "Queued"
    CONFIRMATION_REQUIRED = "ConfirmationRequired"
    DEGRADED = "Degraded"
    ENDING_SOON = "EndingSoon"
    PREEMPTING = "Preempting"
    NO_SHOW = "NoShow"
    AWAITING_PREEMPTION = "AwaitingPreemption"
    OWNER_UNRESOLVED = "OwnerUnresolved"


class Reason(StrEnum):
    """Why a reservation is degraded, the gravest first."""

    BINDING_LOST = "BindingLost"
    NODE_UNREACHABLE = "NodeUnreachable"
    DEVICE_UNHEALTHY = "DeviceUnhealthy"
    HOST_OVERCOMMITTED = "HostOvercommitted"
    NODE_MAINTENANCE = "NodeMaintenance"


def put(
    conditions: Sequence[dict[str, Any]],
    kind: ConditionType,
    *,
    reason: str,
    message: str,
    now_ms: int,
) -> Conditions:
    """The list with this condition true, where it was before: two of them do not change places."""
    known = find(conditions, kind)
    unchanged = known is not None and known["reason"] == reason
    entry = {
        "type": str(kind),
        "status": "True",
        "reason": reason,
        "message": message,
        "since": known["since"] if known is not None and unchanged else now_ms,
    }
    kept = [entry if each["type"] == kind else dict(each) for each in conditions]
    return kept if known is not None else [*kept, entry]


def clear(conditions: Sequence[dict[str, Any]], *kinds: ConditionType) -> Conditions:
    """The list without these conditions."""
    return [dict(entry) for entry in conditions if entry["type"] not in kinds]


def find(conditions: Sequence[dict[str, Any]], kind: ConditionType) -> dict[str, Any] | None:
    """The condition of this type, if it is true now."""
    return next((dict(entry) for entry in conditions if entry["type"] == kind), None)
