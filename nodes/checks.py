"""Invariants of nodes on a live database, as queries that return the offenders (C39).

The self-check, the torture test and the simulation run the same list.
"""

from collections.abc import Callable

from bettercompute import sql
from bettercompute.findings import Finding
from nodes import resources
from nodes.conditions import Condition
from nodes.models import NodeCondition

CHECKS_SQL = sql.load(__package__, "checks")

GUARDS = (
    "booking_no_overlap",
    "booking_not_empty",
    "booking_half_open",
    "device_bookable_in_gpus_mode",
    "device_bookable_as_its_kind",
    "device_gpu_is_itself",
    "device_mode_of_gpus_only",
    "node_resource_within_ceiling",
    "resource_booking_not_empty",
    "resource_booking_half_open",
    "nodes_state_guard",
)

_OURS = "This is a defect of ours: keep the rows and report it; no new placement makes it worse."


def overlapping_bookings() -> list[Finding]:
    """No device is booked twice for one instant (C9)."""
    return [
        Finding("bookings.overlap", f"{device} is booked by both {one} and {other}.", _OURS)
        for device, one, other in CHECKS_SQL.all("overlapping_bookings")
    ]


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


def overcommitted_resources() -> list[Finding]:
    """Hosts that shrank under what is booked (C12)."""
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


def bookings_of_nobody() -> list[Finding]:
    """Every booking that is not over belongs to an allocation that lives."""
    return [
        Finding("bookings.of-nobody", f"{allocation} has bookings but no assignment.", _OURS)
        for (allocation,) in CHECKS_SQL.all("bookings_of_nobody")
    ]


def devices_wanted_twice() -> list[Finding]:
    """No node is told to hold a device for two allocations (R35)."""
    return [
        Finding("assignments.twice", f"{node} should hold a device for {one} and {other}.", _OURS)
        for node, one, other in CHECKS_SQL.all("devices_wanted_twice")
    ]


def refused_inventories() -> list[Finding]:
    """Nodes whose inventory could not be applied, such as a card that two machines report (N9)."""
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


def missing_guards() -> list[Finding]:
    """The constraints and triggers are there and enforced."""
    present = {name for (name,) in CHECKS_SQL.all("guards")}
    return [
        Finding(
            "schema.guard",
            f"{name} is missing or not enforced.",
            "Stop placing, restore it from nodes/migrations/sql, then run the self-check again.",
        )
        for name in GUARDS
        if name not in present
    ]


ALL: tuple[Callable[[], list[Finding]], ...] = (
    missing_guards,
    overlapping_bookings,
    atom_rule,
    miscounted_resources,
    overcommitted_resources,
    bookings_of_nobody,
    devices_wanted_twice,
    refused_inventories,
)
