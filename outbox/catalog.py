"""Every event type: what it means, its data, and an example (R25).

This is the only list. ``events.publish`` refuses what is not here or does not fit; docs/events.md
and the webhook filter are made from it. Names are never reused with another meaning.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from outbox.event_data import (
    BindingRejected,
    ConfirmationChanged,
    DeviceChanged,
    EventData,
    NodeChanged,
    NodeMaintenance,
    OfferChanged,
    PoolChanged,
    PoolMaintenance,
    QuotaChanged,
    ReservationChanged,
    ReservationEnding,
    ReservationExtended,
    ReservationMaintenance,
    ReservationPlaced,
    ReservationReassigned,
    ReservationReleased,
    ReservationUsersChanged,
    SeriesChanged,
    WebhookChanged,
    WebhookDisabled,
)


@dataclass(frozen=True, slots=True)
class EventType:
    """One row of the catalog."""

    name: str
    meaning: str
    data: type[EventData]
    example: Mapping[str, Any]

    @property
    def subject(self) -> str:
        """What the first part of its events' subjects says: ``reservation/rsv_…``."""
        return "series" if self.name.startswith("reservation.series-") else self.group

    @property
    def group(self) -> str:
        """What it is filtered by together with others: ``reservation.*``."""
        return self.name.partition(".")[0]


_POOL = "pool_01kb2v9q3n8x4t6m2h5r7w1y0z"
_NODE = "node_01kb2v9q3n8x4t6m2h5r7w1y0z"
_WINDOW = {"start": 1_772_442_000_000, "end": 1_772_470_800_000}


def _reservation(
    verb: str,
    meaning: str,
    state: str,
    data: type[ReservationChanged] = ReservationChanged,
    **more: Any,
) -> EventType:
    return EventType(
        f"reservation.{verb}", meaning, data, {"state": state, "poolId": _POOL, **more}
    )


def _series(verb: str, meaning: str, state: str, **more: Any) -> EventType:
    example = {"state": state, "poolId": _POOL, **more}
    return EventType(f"reservation.series-{verb}", meaning, SeriesChanged, example)


def _confirmation(verb: str, meaning: str, state: str, **more: Any) -> EventType:
    asked = {"state": state, "action": "compute:reservations:create", "resourceId": "rsv_abc"}
    example = asked | {"accountId": "usr_a", "agent": "trainer", "expiresAt": _WINDOW["start"]}
    return EventType(f"confirmation.{verb}", meaning, ConfirmationChanged, example | more)


def _node(verb: str, meaning: str, **more: Any) -> EventType:
    example = {"poolId": _POOL, "name": "gpu-07", **more}
    return EventType(f"node.{verb}", meaning, NodeChanged, example)


def _maintenance(subject: str, verb: str, meaning: str, data: type[EventData]) -> EventType:
    planned = {"maintenanceId": "mnt_01kb2v9q3n8x4t6m2h5r7w1y0z", **_WINDOW, "reason": "new PSUs"}
    example = {"poolId": _POOL, "name": "gpu-07" if subject == "node" else "main", **planned}
    return EventType(f"{subject}.maintenance-{verb}", meaning, data, example)


def _device(verb: str, meaning: str, **more: Any) -> EventType:
    example = {"poolId": _POOL, "nodeId": _NODE, **more}
    return EventType(f"device.{verb}", meaning, DeviceChanged, example)


TYPES: tuple[EventType, ...] = (
    _reservation(
        "placed",
        "Devices are booked for the window.",
        "placed",
        ReservationPlaced,
        nodeIds=[_NODE],
        **_WINDOW,
    ),
    _reservation("pending", "Nothing fits now; it waits and is tried again.", "pending"),
    _reservation("queued", "It waits for the pool's placer.", "pending"),
    _reservation("binding", "The window began; nodes are handing out the devices.", "binding"),
    _reservation("active", "Every node confirmed; the devices can be used.", "active"),
    _reservation(
        "extended", "It ends later now.", "active", ReservationExtended, end=_WINDOW["end"]
    ),
    _reservation(
        "users-changed",
        "It is shared with others than before.",
        "placed",
        ReservationUsersChanged,
        added=["usr_a"],
        removed=[],
    ),
    _reservation("ending", "It ends soon.", "active", ReservationEnding, end=_WINDOW["end"]),
    _reservation("released", "It ended.", "released", ReservationReleased, reason="expired"),
    _reservation("cancelled", "It was withdrawn before its start.", "cancelled"),
    _reservation(
        "failed", "It could not be bound, three times.", "failed", reason="binding-failed"
    ),
    _reservation(
        "denied", "A policy or the pool's limits refused it, or whom an agent asked.", "denied"
    ),
    _reservation(
        "awaiting-confirmation", "A person must confirm it first.", "awaiting-confirmation"
    ),
    _reservation("expired", "It waited too long for a place or a confirmation.", "expired"),
    _reservation("repaired", "It moved to other devices, before its start.", "placed"),
    _reservation(
        "maintenance",
        "Maintenance is planned within its time; it keeps what it has.",
        "placed",
        ReservationMaintenance,
        reason="new PSUs",
        **_WINDOW,
    ),
    _reservation(
        "preempting",
        "It is spot, and gives way: it ends earlier.",
        "active",
        ReservationEnding,
        end=_WINDOW["end"],
    ),
    _reservation(
        "spared",
        "It need not give way after all, or later: it ends then.",
        "active",
        ReservationEnding,
        end=_WINDOW["end"],
    ),
    _reservation("preempted", "It gave way.", "released"),
    _reservation(
        "no-show-warning",
        "Nothing uses its devices; it ends then unless something does.",
        "active",
        ReservationEnding,
        end=_WINDOW["end"],
    ),
    _reservation(
        "reassigned",
        "Its owner left; a successor has it now.",
        "active",
        ReservationReassigned,
        reservationId="rsv_abc",
        **{"from": "usr_a"},
        to="usr_b",
        reason="offboarded",
    ),
    _reservation(
        "binding-rejected",
        "A node's signed report did not prove its binding.",
        "binding",
        BindingRejected,
        allocationId="alloc_01kb2v9q3n8x4t6m2h5r7w1y0z",
        nodeId=_NODE,
        reason="certificate-revoked",
    ),
    _series("opened", "A recurring reservation was made; its occurrences are booked.", "active"),
    _series(
        "unbooked",
        "An occurrence could not be booked; it is tried again until it would begin.",
        "active",
        occurrence=_WINDOW["start"],
        reservationId="rsv_abc",
        reason="NoCapacity",
        message="2 nodes lack 4 free GPUs in the window (busy).",
    ),
    _series("cut", "No occurrence from this one on is booked.", "active", occurrence=1772442000000),
    _series("cancelled", "No more of its occurrences are booked.", "cancelled"),
    _series("ended", "Its last occurrence has begun.", "ended"),
    _confirmation("requested", "An agent asks its person to confirm an act.", "open"),
    _confirmation("approved", "The person lets the agent do it, once.", "approved"),
    _confirmation("denied", "The person, or a policy since, denies it.", "denied", reason="later"),
    _confirmation("expired", "Nobody answered, or the agent came too late.", "expired"),
    _node("registered", "A node joined a pool."),
    _node("connected", "Its agent talks to us.", state="ready"),
    _node("disconnected", "Silent for over 15 s; nothing is taken from it.", state="ready"),
    _node("unreachable", "Silent for over 5 minutes: no new placements.", state="unreachable"),
    _node("cordoned", "An operator stopped new placements.", state="ready"),
    _node("uncordoned", "New placements are allowed again.", state="ready"),
    _node("tainted", "Its taints changed.", state="ready"),
    _node("labelled", "Its labels changed.", state="ready"),
    _node("inventory-changed", "Its devices or resources changed.", state="ready"),
    _node("overcommitted", "More is booked on it than it has now.", state="ready"),
    _maintenance("node", "announced", "Nothing new is booked over it.", NodeMaintenance),
    _maintenance("node", "cancelled", "Its time may be booked again.", NodeMaintenance),
    _maintenance("pool", "announced", "Nothing new is booked over it.", PoolMaintenance),
    _maintenance("pool", "cancelled", "Its time may be booked again.", PoolMaintenance),
    _device("unhealthy", "The driver reported an error.", reason="xid-79"),
    _device("healthy", "It works again."),
    _device("quarantined", "It is kept from new placements.", reason="unbind-timeout"),
    _device("unquarantined", "It may be placed on again."),
    _device("mode-changed", "It is handed out another way.", reason="mig"),
    EventType("pool.created", "A pool was created.", PoolChanged, {"poolId": _POOL}),
    EventType("pool.changed", "A pool's policy changed.", PoolChanged, {"poolId": _POOL}),
    EventType(
        "pool.offered",
        "A pool is offered to another tenant, on these terms; both are told.",
        OfferChanged,
        {"poolId": _POOL, "toTenantId": "ten_b", "resources": {"gpuMilli": 8_000}},
    ),
    EventType(
        "quota.changed",
        "A limit of what the tenant may hold changed.",
        QuotaChanged,
        {"resource": "gpuMilli", "max": 256_000},
    ),
    EventType(
        "webhook.enabled",
        "A webhook is sent what happens again, and what waited for it.",
        WebhookChanged,
        {"webhookId": "whk_a"},
    ),
    EventType(
        "webhook.disabled",
        "A webhook is sent nothing any more.",
        WebhookDisabled,
        {"webhookId": "whk_a", "reason": "failing"},
    ),
    EventType(
        "webhook.deleted",
        "A webhook is no more; nothing that waited for it is sent.",
        WebhookChanged,
        {"webhookId": "whk_a"},
    ),
    EventType(
        "webhook.test",
        "Somebody tries a webhook; sent to that one alone, and in no list of events.",
        WebhookChanged,
        {"webhookId": "whk_a"},
    ),
)

BY_NAME: Mapping[str, EventType] = {kind.name: kind for kind in TYPES}
GROUPS: Sequence[str] = tuple(dict.fromkeys(kind.group for kind in TYPES))
