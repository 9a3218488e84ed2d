"""Invariants of nodes on a live database, as queries that return the offenders (C39).

The self-check, the torture test and the simulation run the same list.
"""

from bettercompute import findings, sql
from bettercompute.coordination import heartbeats
from bettercompute.coordination.heartbeats import Role
from bettercompute.findings import Check, Finding
from bettercompute.states import NodeState
from nodes import maintenance, resources
from nodes.conditions import Condition
from nodes.models import Node, NodeCondition

CHECKS_SQL = sql.load(__package__, "checks")

_OURS = "This is a defect of ours: keep the rows and report it; no new placement makes it worse."
_MODE = (
    "Find out what changed the GPU's mode on its host, and change it back; if nothing did, it is a"
    " defect of ours: report it."
)


@findings.check("bookings.overlap", invariant=True)
def overlapping_bookings() -> list[Finding]:
    """No device is booked twice for one instant (C9)."""
    return [
        Finding("bookings.overlap", f"{device} is booked by both {one} and {other}.", _OURS)
        for device, one, other in CHECKS_SQL.all("overlapping_bookings")
    ]


@findings.check("devices.atom-rule", invariant=True)
def atom_rule() -> list[Finding]:
    """A GPU and its parts are never bookable, nor booked, at the same time (C10)."""
    bookable = [
        Finding(
            "devices.atom-rule", f"{atom} is bookable as {mode}, but its GPU is {gpu_mode}.", _OURS
        )
        for atom, mode, gpu_mode in CHECKS_SQL.all("atoms_bookable_beside_their_gpu")
    ]
    booked = [
        Finding(
            "devices.atom-rule",
            f"{gpu} is booked whole by {one} while {part} is booked by {other}.",
            _OURS,
        )
        for gpu, one, part, other in CHECKS_SQL.all("gpus_booked_whole_and_in_parts")
    ]
    return bookable + booked


@findings.check("bookings.mode", invariant=True)
def booked_in_mode() -> list[Finding]:
    """What is booked of a GPU is bookable in its present mode (C11)."""
    return [
        Finding("bookings.mode", f"{device} is booked by {holder} but not bookable.", _MODE)
        for device, holder in CHECKS_SQL.all("booked_though_not_bookable")
    ]


@findings.check("resources.allocated", invariant=True)
def miscounted_resources() -> list[Finding]:
    """What is allocated of a host equals the peak of its bookings (C12)."""
    return [
        Finding(
            "resources.allocated",
            f"{node} has {allocated} {resource} allocated; its bookings peak at {peak}.",
            _OURS,
        )
        for node, resource, allocated, peak, _, _ in CHECKS_SQL.all("resources_miscounted")
    ]


@findings.check("resources.overcommitted")
def overcommitted_resources() -> list[Finding]:
    """No host has shrunk under what is booked (C12)."""
    return [
        Finding(
            "resources.overcommitted",
            f"{each.node_id} has {each.admits} {each.resource} to give and"
            f" {each.allocated} booked at the peak.",
            "Nothing new is placed there until it fits; release or move reservations, or give the"
            " host back what it had.",
        )
        for each in resources.all_overcommitted()
    ]


@findings.check("bookings.of-nobody", invariant=True)
def bookings_of_nobody() -> list[Finding]:
    """Every booking that is not over belongs to an allocation that lives."""
    return [
        Finding("bookings.of-nobody", f"{allocation} has bookings but no assignment.", _OURS)
        for (allocation,) in CHECKS_SQL.all("bookings_of_nobody")
    ]


@findings.check("assignments.twice", invariant=True)
def devices_wanted_twice() -> list[Finding]:
    """No node is told to hold a device for two allocations (R35)."""
    return [
        Finding("assignments.twice", f"{node} should hold a device for {one} and {other}.", _OURS)
        for node, one, other in CHECKS_SQL.all("devices_wanted_twice")
    ]


@findings.check("maintenance.booked-over", invariant=True)
def booked_over_maintenance() -> list[Finding]:
    """Nothing is booked over maintenance that was announced before it (C13)."""
    return [
        Finding(
            "maintenance.booked-over",
            f"{device} is booked by {allocation} over the maintenance {window}.",
            "Move or release that reservation before the work begins, and report it: it is a"
            " defect of ours.",
        )
        for window, device, allocation in maintenance.MAINTENANCE.all("booked_over")
    ]


@findings.check("gateways.alive")
def gateways_alive() -> list[Finding]:
    """Where there are nodes, a gateway lives and can write (C38)."""
    alive = heartbeats.alive(Role.GATEWAY)
    if alive or not Node.objects.exclude(state=NodeState.RETIRED).exists():
        return []
    return [
        Finding(
            "gateways.alive",
            "No gateway has written its heartbeat for 15 s; nothing new reaches any node.",
            "Start one: gunicorn -c python:bettercompute.gunicorn_conf --workers 1"
            " nodes.gateway.app:application. What runs on the nodes goes on meanwhile.",
        )
    ]


@findings.check("inventory.refused")
def refused_inventories() -> list[Finding]:
    """Every inventory could be applied; no card is reported by two machines (N9)."""
    return [
        Finding(
            "inventory.refused",
            f"{row.node.name} ({row.node_id}): {row.message}",
            "Find out which machine has the card; retire the other node, then let it report again.",
        )
        for row in NodeCondition.objects.filter(type=Condition.INVENTORY_REFUSED)
        .select_related("node")
        .order_by("node_id")
    ]


ALL: tuple[Check, ...] = (
    overlapping_bookings,
    atom_rule,
    booked_in_mode,
    miscounted_resources,
    overcommitted_resources,
    bookings_of_nobody,
    devices_wanted_twice,
    booked_over_maintenance,
    gateways_alive,
    refused_inventories,
)
